package render

// Occupy takes a worker away until the function that it returns is called.
func Occupy(r *Renderer) (release func()) {
	w := <-r.workers
	return func() { r.workers <- w }
}
