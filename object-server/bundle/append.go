package bundle

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle/format"
	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

// Writer appends to a bundle. There is one for each bundle, see TakeWriter. One goroutine
// at a time may use it and the Appended that it returns.
type Writer struct{ bundle *Bundle }

// TakeWriter returns the writer of the bundle to the first call, and nil to all others.
func (b *Bundle) TakeWriter() *Writer {
	if b.writerTaken.Swap(true) {
		return nil
	}
	return &Writer{b}
}

// Bundle is what the writer appends to.
func (w *Writer) Bundle() *Bundle { return w.bundle }

// Appended is a batch of one bundle that has been written but not yet flushed.
// It is valid until Publish or Discard.
type Appended struct {
	Accepted    int      // how many of the drafts were written, from the first on
	Bytes       int64    // written
	Directories []string // to be made durable as well, parents last

	bundle  *Bundle
	file    *handle
	drafts  []*Draft
	tail    int64 // of the segment, once durable
	last    uint64
	iovecs  [][]byte
	partial []byte // of the last block, where writes are direct

	inPlace  bool  // see InPlace
	frontier int64 // of a recycled segment, once durable; 0: as it was
}

// Append writes drafts at the end of the log, as many as the segment takes, at
// least one. Nothing is visible or durable yet: the caller flushes and then
// calls Publish, or Discard when the flush failed.
//
// After ErrNotWritten nothing of the drafts is in the log, and the bundle is as
// it was. After any other error the segment is closed, and what may have been
// written of the drafts is void once the next append succeeds; a restart before
// that may find some of it.
func (w *Writer) Append(drafts []*Draft) (*Appended, error) {
	b := w.bundle
	a := &b.pending
	*a = Appended{bundle: b, drafts: a.drafts[:0], iovecs: a.iovecs[:0], Directories: a.Directories[:0], partial: a.partial}
	if b.active != nil && (b.active.tail+drafts[0].Len() > b.most(b.active) || b.isTurning()) {
		b.close() // full, and all of it is durable
	}
	fresh := b.active == nil
	if fresh {
		if err := b.newSegment(a, drafts[0].Len()); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
	} else {
		h, err := b.files.get(b.active.key(b.id))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		a.file, a.tail = h, b.active.tail
	}
	a.take(drafts)
	if err := a.write(); err != nil {
		return nil, b.undo(a, fresh, err)
	}
	return a, nil
}

// most is how long a segment may get.
func (b *Bundle) most(s *openSegment) int64 {
	if s.life != nil {
		return s.life.capacity
	}
	return b.config.SegmentBytes
}

// take stamps the drafts that fit and lines them up for writing.
func (a *Appended) take(drafts []*Draft) {
	b := a.bundle
	a.last = b.lastLSN
	for _, d := range drafts {
		if a.Accepted > 0 && a.tail+d.Len() > b.most(b.active) {
			break // the rest goes to a new segment, once this one is durable
		}
		a.tail += d.Len()
		a.Bytes += d.Len()
		a.Accepted++
		for ; d != nil; d = d.next {
			a.last++
			d.stamp(a.last, b.lastLSN, b.active.salt, b.active.checkpoint)
			a.iovecs = append(a.iovecs, d.bytes())
			a.drafts = append(a.drafts, d)
		}
	}
}

// close ends the segment that grows. Upkeep gives it a footer.
func (b *Bundle) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.active; s != nil && s.last < s.base {
		b.segments.remove(s) // nothing in it counts; the successor's base LSN voids the file
		b.void = append(b.void, s.key(b.id))
	}
	if b.active != nil && b.active.closed == 0 {
		b.active.closed = ticksNow()
	}
	if b.active != nil && b.active.life != nil { // what lies behind the tail was never acknowledged
		b.active.life.frontier = b.active.tail
	}
	b.active, b.turn = nil, false
	b.upkeep.Store(true)
}

// newSegment makes the directories and an empty segment file, and puts the
// segment header at the head of the batch. A crash from here to the flush
// leaves directories, and a file with any part of the batch. In a recycled file,
// which has room for the first record, the header is there already.
func (b *Bundle) newSegment(a *Appended, first int64) error {
	if err := b.makeDirectories(a); err != nil {
		return err
	}
	head := format.SegmentHeader{
		Policy: uint32(b.id.Policy), Partition: b.id.Partition, Power: b.id.Power, Sequence: b.nextSequence,
		BaseLSN: b.lastLSN + 1, Created: ticksNow(),
	}
	var err error
	if head.Bundle, err = b.Identify(); err != nil {
		return err
	}
	if _, err := rand.Read(head.UUID[:]); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	key := fileKey{b.id, head.Sequence, 0}
	_, wanted := b.Bytes()
	file, life, err := b.files.recycle(key, head, first, min(wanted, b.config.SegmentBytes))
	if err == nil && file == nil {
		file, err = b.files.create(key)
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.SegmentCreated)
	b.nextSequence++
	s := &openSegment{
		sequence: head.Sequence, through: head.Sequence, salt: head.Salt(), base: head.BaseLSN, last: b.lastLSN,
		tail: format.SegmentHeaderSize, resume: format.SegmentHeaderSize / format.UnitSize, covered: b.lastLSN, life: life,
	}
	b.mu.Lock()
	if err = b.segments.add(s, false); err == nil {
		b.active = s
	}
	b.mu.Unlock()
	if err != nil { // if this fails, the empty file is removed when the bundle is next opened
		file.release()
		b.files.forget(s.key(b.id))
		_ = b.files.FS.Remove(b.files.path(s.key(b.id)))
		return err
	}
	a.file, a.tail = file, format.SegmentHeaderSize
	if life != nil {
		s.partial, s.reserved = life.head.Encode(), life.capacity
		return nil
	}
	a.Bytes = format.SegmentHeaderSize
	a.iovecs = append(a.iovecs, head.Encode())
	return nil
}

func (b *Bundle) makeDirectories(a *Appended) error {
	parent := filepath.Dir(b.directory)
	a.Directories = append(a.Directories, b.directory)
	b.dirMu.Lock()
	durable := b.dirDurable
	b.dirMu.Unlock()
	if durable {
		return nil
	}
	a.Directories = append(a.Directories, parent, filepath.Dir(parent))
	return b.mkdirs(parent, b.directory)
}

func (b *Bundle) mkdirs(directories ...string) error {
	for _, d := range directories {
		if err := b.files.FS.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}

// undo leaves the log as if the failed append had not been tried, where the
// disk was full, and closes the segment otherwise. It returns the error to tell.
func (b *Bundle) undo(a *Appended, fresh bool, cause error) error {
	defer a.finish()
	active := b.active
	if fresh || !errors.Is(cause, vfs.ErrNoSpace) {
		b.close()
	}
	if !errors.Is(cause, vfs.ErrNoSpace) {
		return fmt.Errorf("bundle: %w", cause)
	}
	if active.life != nil { // its length stays
		b.close()
		return fmt.Errorf("bundle: %w", cause)
	}
	if err := a.file.Truncate(active.tail); err != nil {
		b.close()
		return fmt.Errorf("bundle: %w", cause)
	}
	if fresh { // give back the inode, and the handle with it; if that fails, opening does it
		b.files.forget(active.key(b.id))
		_ = b.files.FS.Remove(b.files.path(active.key(b.id)))
	}
	return fmt.Errorf("%w: %w", ErrNotWritten, cause)
}

func (a *Appended) finish() {
	a.file.release()
	a.file = nil
	clear(a.drafts)
	clear(a.iovecs)
}

// Datasync flushes the segment that was appended to.
func (a *Appended) Datasync() error { return a.file.Datasync() }

// InPlace tells whether nothing but bytes of a recycled segment has changed, and no
// name. They are durable once any file of the file system has been flushed.
func (a *Appended) InPlace() bool { return a.inPlace && len(a.Directories) == 0 }

// Publish makes a flushed batch visible.
func (a *Appended) Publish() {
	b := a.bundle
	if len(a.Directories) > 1 {
		b.dirMu.Lock()
		b.dirDurable = true
		b.dirMu.Unlock()
	}
	offset := a.tail
	for _, d := range a.drafts {
		offset -= d.length()
	}
	b.mu.Lock()
	for _, d := range a.drafts {
		b.publish(d, uint32(offset/format.UnitSize))
		offset += d.length()
	}
	b.active.tail, b.active.last, b.lastLSN, b.acknowledged = a.tail, a.last, a.last, a.last
	if b.checkpointDue(b.active) {
		b.upkeep.Store(true)
	}
	b.mu.Unlock()
	if a.frontier > 0 {
		b.active.life.frontier = a.frontier
	}
	newest := a.drafts[len(a.drafts)-1].head
	b.active.partial, a.partial = a.partial, b.active.partial
	b.provenLSN, b.padded = newest.Watermark(), newest.Type == format.TypePad
	a.finish()
}

// publish makes one record of the active segment visible. b.mu is held.
func (b *Bundle) publish(d *Draft, unit uint32) {
	s := b.active
	s.records++
	s.samples = format.AddSample(s.samples, uint32(d.head.LSN-s.base), unit)
	switch {
	case d.head.Type.Named():
		e := d.head.Entry(unit)
		b.enter(s, &e, d.old, d.oldUnits)
		b.agree(d, &e)
		if d.next != nil {
			d.next.old, d.next.oldUnits = s.slotOf(&e), e.Units
		}
		if d.doubtful != 0 {
			if b.superseded == nil {
				b.superseded = make(superseded)
			}
			b.superseded[d.doubtful.At()] = append(b.superseded[d.doubtful.At()], e.Hash)
		}
		if d.chain != nil {
			if lsn, units := d.chain.Freed(); units > 0 {
				if from := b.segments.withLSN(lsn); from != nil {
					from.live -= int64(units)
				}
			}
		}
	case d.head.Type == format.TypeCheckpoint:
		// One that was made for an earlier segment says nothing of this one.
		if c, err := format.ParseCheckpoint(d.Data()); err == nil && c.Sequence == s.sequence {
			s.checkpoint, s.resume, s.covered, s.records = unit, c.Resume, d.head.Previous, 0
		}
	}
}

// Discard gives up a batch whose flush failed. What the disk holds of it is
// unknown, so the segment gets no more records: the base LSN of the next one
// voids whatever lies behind the durable end.
func (a *Appended) Discard() {
	a.bundle.close()
	a.finish()
}

// Pad returns a record that proves the last batch to have been durable, or nil
// if there is nothing to prove.
func (w *Writer) Pad() *Draft {
	b := w.bundle
	if b.active == nil || b.padded || b.provenLSN == b.lastLSN {
		return nil
	}
	d := NewDraft(0)
	d.sealPad()
	return d
}
