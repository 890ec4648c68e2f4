package partition

import (
	"context"
	"maps"
	"slices"
	"time"

	"quire.dev/pkg/journal"
)

// watermarksTimeout bounds the queries of the document journals.
const watermarksTimeout = 30 * time.Second

// compareWatermarks warns operators of document journals that end before their settled position. Such a journal was restored
// from an older backup, truncated or recreated. Nothing stops: its next requests are stored later than everything settled, and
// are settled too.
func (p *Partition) compareWatermarks(ctx context.Context) {
	p.mu.Lock()
	watermarks := p.fold.Watermarks()
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, watermarksTimeout)
	defer cancel()
	for _, stream := range slices.Sorted(maps.Keys(watermarks)) {
		state, err := journal.Open(p.deps.NC, stream).State(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.log.Info("the end of a document journal is unknown", "journal", stream, "cause", err)
		case state.Last < watermarks[stream]:
			p.log.Warn("a document journal ends before its settled position: it was restored, truncated or recreated. New requests are "+
				"settled, and nothing twice", "journal", stream, "settled", watermarks[stream], "end", state.Last)
		}
	}
}
