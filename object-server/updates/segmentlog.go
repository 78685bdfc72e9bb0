package updates

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"martlet/object-server/vfs"
)

// segmentLog is the directory of pending updates of one policy on one device. It is safe for concurrent use.
type segmentLog struct {
	fs   vfs.FS
	root string // the device
	dir  string

	marks *marks

	flush sync.Mutex // held while writing; its holder writes for all that wait

	mu       sync.Mutex
	waiting  []*appendRequest
	active   *segment // written to; nil until the first append
	closed   []*segment
	holding  *segment // one of closed, in memory, that takes further updates; nil: the next update makes one
	sequence uint64   // of the last segment
	aside    int      // damaged segments that are kept for inspection alone
	ready    bool     // the name of dir is durable; a process that was killed may have left it otherwise
}

type appendRequest struct {
	updates []Update
	done    bool // guarded by segmentLog.flush
	segment *segment
	first   int // place of the first update in segment
	err     error
}

func newSegmentLog(fileSystem vfs.FS, root, name string, marks *marks) *segmentLog {
	return &segmentLog{fs: fileSystem, root: root, dir: path.Join(root, name), marks: marks}
}

// openSegmentLog finds the segments that an earlier process left.
func openSegmentLog(fileSystem vfs.FS, root, name string, marks *marks) (*segmentLog, error) {
	l := newSegmentLog(fileSystem, root, name, marks)
	entries, err := fileSystem.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if sequence, ok := parseSegmentName(entry.Name()); ok {
			l.closed = append(l.closed, newSegment(l.dir, sequence))
			l.sequence = max(l.sequence, sequence)
		}
		if sequence, ok := parseSequence(entry.Name(), damagedSuffix); ok {
			l.aside++
			l.sequence = max(l.sequence, sequence)
		}
	}
	slices.SortFunc(l.closed, func(a, b *segment) int { return int(int64(a.sequence) - int64(b.sequence)) })
	return l, nil
}

// append makes updates durable and returns where they are. Concurrent callers share one flush.
func (l *segmentLog) append(updates []Update) (*segment, int, error) {
	request := &appendRequest{updates: updates}
	l.mu.Lock()
	l.waiting = append(l.waiting, request)
	l.mu.Unlock()

	l.flush.Lock()
	defer l.flush.Unlock()
	if !request.done {
		l.mu.Lock()
		batch := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		l.writeBatch(batch)
	}
	return request.segment, request.first, request.err
}

// writeBatch writes and flushes batch. After a failure the segment is never written to again: what is
// on disk behind the last good flush is unknown.
func (l *segmentLog) writeBatch(batch []*appendRequest) {
	var updates []Update
	for _, request := range batch {
		updates = append(updates, request.updates...)
	}
	current, err := l.writeFrame(updates)
	if err != nil {
		err = fmt.Errorf("saving container updates in %s: %w", l.dir, err)
		l.closeActive()
	}
	l.mu.Lock()
	place := 0
	if err == nil {
		place = current.count
		current.count += len(updates)
		current.noteOldest(updates)
	}
	l.mu.Unlock()
	for _, request := range batch {
		request.done, request.err, request.segment, request.first = true, err, current, place
		place += len(request.updates)
	}
	if err == nil && current.size >= segmentBytes {
		l.closeActive()
	}
}

func (l *segmentLog) writeFrame(updates []Update) (*segment, error) {
	frames, err := encodeFrames(updates)
	if err != nil {
		return nil, err
	}
	current, err := l.openActive()
	if err != nil {
		return nil, err
	}
	if err := current.file.Writev(frames, current.size); err != nil {
		return nil, err
	}
	if err := current.file.Datasync(); err != nil {
		return nil, err
	}
	for _, frame := range frames {
		current.size += int64(len(frame))
	}
	return current, nil
}

// openActive returns the segment to write to; a new one's name is durable before its first frame.
func (l *segmentLog) openActive() (*segment, error) {
	if l.active != nil {
		return l.active, nil
	}
	if !l.ready {
		if err := l.fs.Mkdir(l.dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := l.fs.SyncDir(l.root); err != nil {
			return nil, err
		}
		l.ready = true
	}
	l.mu.Lock()
	l.sequence++
	created := newSegment(l.dir, l.sequence)
	created.since = l.marks.taken.Load()
	l.mu.Unlock()
	file, err := l.fs.Create(created.path)
	if err != nil {
		return nil, err
	}
	created.file, created.created = file, time.Now()
	l.mu.Lock()
	l.active = created
	l.mu.Unlock()
	return created, l.fs.SyncDir(l.dir)
}

// closeActive lets the replay have the segment written to. The caller holds flush.
func (l *segmentLog) closeActive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active == nil {
		return
	}
	_ = l.active.file.Close() // all that was acknowledged is flushed
	l.active.file = nil
	l.closed = append(l.closed, l.active)
	l.active = nil
}

// rotate closes the segment written to and returns all closed ones, oldest first.
func (l *segmentLog) rotate() []*segment { return l.rotateOlder(time.Now(), 0) }

// rotateOlder is rotate, but while closed segments wait for their servers, one younger than age goes on growing: a long
// outage must not leave a file for each second.
func (l *segmentLog) rotateOlder(now time.Time, age time.Duration) []*segment {
	l.flush.Lock()
	l.mu.Lock()
	isDue := l.active != nil && (len(l.closed) == 0 || now.Sub(l.active.created) >= age)
	l.mu.Unlock()
	if isDue {
		l.closeActive()
	}
	l.flush.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = nil
	return slices.Clone(l.closed)
}

// markDelivered notes that the update at place in s needs no replay. The note is in memory only: after a restart the
// update is delivered once more, which does no harm.
func (l *segmentLog) markDelivered(s *segment, place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.delivered[place] = struct{}{}
}

// markArrived is markDelivered for a place as it was when it was written. Damage may have moved it: the update is then
// delivered once more.
func (l *segmentLog) markArrived(s *segment, place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.damaged {
		s.delivered[place] = struct{}{}
	}
}

func (l *segmentLog) isDelivered(s *segment, place int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := s.delivered[place]
	return ok
}

// remove unlinks a closed segment. The name may come back after a power cut, and its rows are then delivered again.
func (l *segmentLog) remove(s *segment) error {
	if !s.inMemory {
		if err := l.fs.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = slices.DeleteFunc(l.closed, func(other *segment) bool { return other == s })
	return nil
}

// setWaiting notes what an attempt to deliver left in s.
func (l *segmentLog) setWaiting(s *segment, waiting map[containerName]*Waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.waiting = waiting
	if len(waiting) == 0 || s == l.active {
		return
	}
	s.oldest = 0
	for _, w := range waiting {
		s.oldest = earliest(s.oldest, w.oldest)
	}
}

// figures returns the Unix time of the oldest write that waits, 0 for none, and what is known by container.
func (l *segmentLog) figures() (oldest float64, containers []map[containerName]*Waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range append(slices.Clone(l.closed), l.active) {
		if s == nil || s.count == len(s.delivered) {
			continue
		}
		oldest = earliest(oldest, s.oldest)
		containers = append(containers, s.waiting)
	}
	return oldest, containers
}

// count returns how many updates are pending, as far as segments have been read.
func (l *segmentLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	if l.active != nil {
		total = l.active.count - len(l.active.delivered)
	}
	for _, s := range l.closed {
		total += s.count - len(s.delivered)
	}
	return total
}
