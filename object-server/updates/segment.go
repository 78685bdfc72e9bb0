package updates

import (
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/vfs"
)

const (
	segmentBytes    = 4 << 20  // a segment is closed once it is as long as this
	segmentBytesMax = 64 << 20 // what is read of one segment at most
	segmentSuffix   = ".pending"
)

// segment is one file of pending updates: written once, read by the replay, and removed when all is delivered.
// Guarded by segmentLog.mu, except file and size, which only the flush touches.
type segment struct {
	sequence uint64
	path     string
	file     vfs.File // nil once closed
	size     int64
	created  time.Time // zero for a segment found at start

	count     int // updates in the file; 0 for a segment found at start, until it was read
	delivered map[int]struct{}
	oldest    float64                    // Unix time of the oldest write that may still wait, in seconds; 0 until the file was read
	waiting   map[containerName]*Waiting // what an attempt left; nil before the first
	damaged   bool                       // holds unreadable updates: kept for inspection once the others are delivered
	inMemory  bool                       // there is no file, because the disk has not taken the updates
	held      []Update                   // of a segment in memory; nothing is added once the replay has seen it
	retryAt   time.Time
	backoffs  uint64 // backoff.generation when retryAt was set
}

func segmentName(sequence uint64) string { return fmt.Sprintf("%016x%s", sequence, segmentSuffix) }

// parseSegmentName is the reverse of segmentName.
func parseSegmentName(name string) (sequence uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) != 16 {
		return 0, false
	}
	sequence, err := strconv.ParseUint(digits, 16, 64)
	return sequence, err == nil
}

func newSegment(dir string, sequence uint64) *segment {
	return &segment{sequence: sequence, path: path.Join(dir, segmentName(sequence)), delivered: map[int]struct{}{}}
}

// noteOldest takes the times of further updates in.
func (s *segment) noteOldest(updates []Update) {
	for _, update := range updates {
		s.oldest = earliest(s.oldest, writtenAt(update.Row))
	}
}

// earliest is the smaller of two times; 0 is none.
func earliest(a, b float64) float64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// read returns the updates of a closed segment.
func (s *segment) read(fs vfs.FS) (updates []Update, damaged int, err error) {
	if s.inMemory {
		return s.held, 0, nil
	}
	file, err := fs.Open(s.path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, 0, err
	}
	content := make([]byte, min(size, segmentBytesMax))
	if _, err := file.ReadAt(content, 0); err != nil && err != io.EOF {
		return nil, 0, fmt.Errorf("%s: %w", s.path, err)
	}
	updates, damaged = decodeSegment(content)
	if size > segmentBytesMax { // what has not been read must not be removed
		damaged++
	}
	return updates, damaged, nil
}
