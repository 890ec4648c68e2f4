// Package segment keeps ranges of a journal as blobs: compressed, checked, and searchable by time, request id and account.
//
// A segment is a concatenation of zstd frames of whole messages, with an index in a skippable frame at the end.
// docs/formats/segments.md specifies it. The package knows messages and blob.Store. What is in a message, and how the chain goes
// on with it, is up to the functions in Options.
package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/blob"
)

// Errors to branch on with errors.Is.
var (
	// ErrGap: messages are missing. The error is a *GapError.
	ErrGap = errors.New("messages are missing from the archive")
	// ErrDamaged: a segment is not what was written. The error is a *DamageError.
	ErrDamaged = errors.New("segment is damaged")
	// ErrForeign: a segment belongs to another installation or stream than its name or Options say.
	ErrForeign = errors.New("segment of another journal")
	// ErrFormat: a segment has a format that this program does not know.
	ErrFormat = errors.New("segment of an unknown format")
	// ErrFull: the segment has its maximum size. The message was not added and belongs into the next segment.
	ErrFull = errors.New("segment is full")
	// ErrInvalid: a message or an argument that no segment can have.
	ErrInvalid = errors.New("invalid for a segment")
)

// GapError is an ErrGap: the stream's messages First to Last are in no segment.
type GapError struct {
	Stream      string
	First, Last uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("messages %d to %d of %s are missing from the archive", e.First, e.Last, e.Stream)
}

// Is makes errors.Is find ErrGap.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// DamageError is an ErrDamaged.
type DamageError struct {
	Segment string // key of the blob
	Offset  int64  // where the damaged part begins: a frame, the index or the trailer
	Err     error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("segment %s is damaged at byte %d: %v", e.Segment, e.Offset, e.Err)
}

// Is makes errors.Is find ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// Message is one message of a journal. Sequences begin at 1.
type Message struct {
	Sequence  uint64
	TimeNanos int64 // the journal's clock, since 1970
	Subject   string
	Data      []byte // of a message that was read: valid until the next one
}

// Mentions is what the index records about messages. Lists may have duplicates and any order.
type Mentions struct {
	Accounts []uint64
	Networks []uint64 // of callers without an account

	lowest, highest int64
	requests        bool
}

// Request adds the time in the id of a request, in Unix milliseconds.
func (m *Mentions) Request(ms int64) {
	ms = max(ms, 0)
	if !m.requests {
		m.lowest, m.highest, m.requests = ms, ms, true
	}
	m.lowest, m.highest = min(m.lowest, ms), max(m.highest, ms)
}

// Options say whose segments an Archive has.
type Options struct {
	// Installation is the id of the installation. Segments of another one are ErrForeign.
	Installation string
	// Chain returns the journal's chain after a message. It must not keep the data.
	Chain func(before Hash, m Message) Hash
	// Mentions adds what is to be found about a message. It must not keep the data. A writer needs it; without it, Verify does not
	// compare what the index says about accounts, networks and requests.
	Mentions func(m Message, found *Mentions)
	// Folder is where a Writer keeps its temporary file; empty: the system's folder of temporary files.
	Folder string
}

// Limits of the format. A writer stays below them, and a reader allocates no more than they allow.
const (
	maxDataBytes     = 8 << 20
	maxSubjectBytes  = math.MaxUint16
	maxFrameBytes    = 64 << 20                                         // stored, of all frames before the last one
	maxRecordBytes   = recordHeadBytes + maxSubjectBytes + maxDataBytes // and of the records of a frame, if a frame has only one
	maxStoredBytes   = maxRecordBytes + 4096                            // of a frame that zstd can't compress
	maxFrames        = 8192
	maxPrincipals    = 1 << 20 // of accounts, and of networks
	maxIndexBytes    = 32 << 20
	maxNameBytes     = 100 // of an installation or stream
	frameTargetBytes = 1 << 20
	windowBytes      = 8 << 20

	maxTrailers = 4096 // cached, of about 300 bytes
)

// Archive reads and writes the segments of an installation. Safe for concurrent use.
type Archive struct {
	store    blob.Store
	options  Options
	decoder  *zstd.Decoder
	trailers trailers

	frameBytes   int   // records of a frame, unless one record is larger
	segmentBytes int64 // stored, of the frames before the last one
}

// New returns the archive in a blob store.
func New(store blob.Store, options Options) (*Archive, error) {
	if !validName(options.Installation) || options.Chain == nil {
		return nil, fmt.Errorf("%w: an archive needs an installation and its chain", ErrInvalid)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(min(runtime.GOMAXPROCS(0), 8)),
		zstd.WithDecoderMaxMemory(maxIndexBytes), zstd.WithDecoderMaxWindow(maxIndexBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("create a zstd decoder: %w", err)
	}
	return &Archive{
		store: store, options: options, decoder: decoder,
		frameBytes: frameTargetBytes, segmentBytes: maxFrameBytes,
	}, nil
}

// validName reports whether s can be the name of an installation or of a stream.
func validName(s string) bool {
	return len(s) <= maxNameBytes && blob.ValidateKey(s) == nil && !strings.Contains(s, "/")
}
