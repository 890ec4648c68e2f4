package render

// Occupy takes a worker away until the function that it returns is called.
func Occupy(r *Renderer) (release func()) {
	w := <-r.workers
	return func() { r.workers <- w }
}

// Patterns is the number of patterns that a name which nobody knows is compared with.
func Patterns(l *Languages) int { return len(l.patterns) }

// MaxLanguageBytes bounds the name of a language.
const MaxLanguageBytes = maxLanguageBytes
