package updates

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"martlet/object-server/vfs"
)

const (
	segmentBytes    = 4 << 20  // a segment is closed once it is as long as this
	segmentBytesMax = 64 << 20 // what is read of one segment at most
	segmentSuffix   = ".pending"
	damagedSuffix   = ".damaged" // of a segment that is kept for inspection alone
)

// segment is one file of pending updates: written once, read by the replay, and removed when all is delivered.
// Guarded by segmentLog.mu, except file and size, which only the flush touches.
type segment struct {
	sequence uint64
	path     string
	file     vfs.File // nil once closed
	size     int64
	created  time.Time // zero for a segment found at start

	since     uint64         // the marks that had been taken when it was made; 0 for a segment found at start
	inherited map[int]uint64 // the same for updates that were moved here, by place
	count     int            // updates in the file; 0 for a segment found at start, until it was read
	delivered map[int]struct{}
	oldest    float64                    // Unix time of the oldest write that may still wait, in seconds; 0 until the file was read
	waiting   map[containerName]*Waiting // what an attempt left; nil before the first
	isRead    bool                       // the replay has read it
	damaged   bool                       // holds unreadable updates: kept for inspection once the others are delivered
	isAside   bool                       // it has the name under which it is kept
	isTorn    bool                       // its end may be one that no write was told of, or damage
	loss      loss                       // whether updates of it must be made again
	inMemory  bool                       // there is no file, because the disk has not taken the updates
	held      []Update                   // of a segment in memory; nothing is added once the replay has seen it
	retryAt   time.Time
	spendAt   time.Time // when a removal that failed is tried again
	backoffs  uint64    // backoff.generation when retryAt was set
}

// damage is what is wrong with a segment.
type damage struct {
	frames int  // in which updates are lost
	isTorn bool // it ends with what is no whole frame, and it is not known whether there was one
}

func segmentName(sequence uint64) string { return fmt.Sprintf("%016x%s", sequence, segmentSuffix) }

// parseSegmentName is the reverse of segmentName.
func parseSegmentName(name string) (sequence uint64, ok bool) {
	return parseSequence(name, segmentSuffix)
}

func parseSequence(name, suffix string) (sequence uint64, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
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
func (s *segment) read(files vfs.FS) (updates []Update, is damage, err error) {
	if s.inMemory {
		return s.held, is, nil
	}
	file, err := files.Open(s.path)
	if isLostFile(err) {
		return nil, damage{frames: 1}, nil
	}
	if err != nil {
		return nil, is, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, is, err
	}
	content := make([]byte, min(size, segmentBytesMax))
	isWhole := readWhatCan(file, content)
	updates, frames, end := decodeSegment(content)
	is.frames = frames
	if size > segmentBytesMax { // what has not been read must not be removed
		is.frames++
	}
	if isOwn := !s.created.IsZero(); isOwn && int64(end) < min(s.size, segmentBytesMax) {
		is.frames++ // the end was flushed
	} else if !isOwn {
		is.isTorn = end < len(content)
	}
	if !isWhole {
		is.frames = max(is.frames, 1)
	}
	return updates, is, nil
}

// isLostFile tells whether err says that a file is gone, or that the disk does not have it whole.
func isLostFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN)
}

const (
	sector       = 4 << 10         // what a disk may fail to read
	readPatience = 2 * time.Second // for the sectors of one file: a disk may take seconds for each
)

// readWhatCan fills content, with zeros where the file cannot be read, and returns false then. After readPatience the rest
// counts as what cannot be read: a stop waits for it, and so do the other rows.
func readWhatCan(file io.ReaderAt, content []byte) bool {
	_, err := file.ReadAt(content, 0)
	if err == nil || errors.Is(err, io.EOF) {
		return true
	}
	for from, began := 0, time.Now(); from < len(content); from += sector {
		if time.Since(began) > readPatience {
			clear(content[from:])
			break
		}
		piece := content[from:min(from+sector, len(content))]
		if _, err := file.ReadAt(piece, int64(from)); err != nil && !errors.Is(err, io.EOF) {
			clear(piece)
		}
	}
	return false
}
