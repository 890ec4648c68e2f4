package segment

// Small makes an archive write small frames and segments.
func (a *Archive) Small(frameBytes int, segmentBytes int64) {
	a.frameBytes, a.segmentBytes = frameBytes, segmentBytes
}
