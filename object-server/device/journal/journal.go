package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// ErrClosed says that the journal has been closed.
var ErrClosed = errors.New("journal: closed")

// idleAfter is how long nothing is written before the bundles are brought up
// to date without need.
const idleAfter = time.Second

// Config is what a journal needs of the device that it serves.
type Config struct {
	FS     vfs.FS
	Root   string        // of the device
	Files  *bundle.Files // of its bundles
	Bytes  int64         // of both files together; for Open
	Logger *slog.Logger

	// Err is not nil once the device is out: then the journal stays as it is, for the
	// next start.
	Err func() error
	// Failed is told of a flush or a note that has failed beside a Commit; a failed
	// Commit is for its caller to count.
	Failed  func(err error)
	TakeOut func(err error) // what is in the bundles is not known any more

	Flushes, BytesWritten *atomic.Uint64 // counted here as well
}

// Journal makes a batch durable with one sequential write and one flush, however
// many bundles it is for. Their own pages are flushed later, many batches at
// once. There are two files: batches go to the current one while the other's are
// being flushed into the bundles (destaged), which gives it free again.
type Journal struct {
	config    Config
	directory vfs.Dir // its own, so that it sees every error of syncfs
	size      int64   // of one file
	wake      chan struct{}
	requests  chan chan error // to drain
	stopping  chan struct{}
	stopped   chan struct{}

	// mu is held while a batch is on its way, from its first byte in a bundle to
	// the end of the flush. So its holder knows that all that the bundles hold is in
	// the journal, or has failed.
	mu       sync.Mutex
	freed    sync.Cond // busy has become false
	files    [2]file
	current  int
	busy     bool   // the other file is being destaged
	number   uint64 // of the newest batch, whether or not it succeeded
	through  uint64 // destaging makes all batches up to here durable in the bundles
	destaged uint64 // all batches up to here are, or have failed
	noted    uint64 // the highest destaged that the journal says itself
}

type file struct {
	vfs.File
	salt   uint64
	tail   int64  // end of the batches
	last   uint64 // number of the last durable one
	broken bool   // what lies at the tail is unknown: nothing more may be appended
}

// Begin makes room for a batch of at most that many bytes and keeps all else
// out until End. End must follow unless Begin fails.
func (j *Journal) Begin(bytes int64) error {
	j.mu.Lock()
	for f := &j.files[j.current]; f.broken || f.tail > 0 && f.tail+bytes > j.size; f = &j.files[j.current] {
		if err := j.config.Err(); err != nil { // the journal is needed as it is
			j.mu.Unlock()
			return err
		}
		if j.busy {
			j.freed.Wait()
		} else {
			j.rotate()
		}
	}
	return nil
}

// End lets others in again.
func (j *Journal) End() { j.mu.Unlock() }

// rotate goes on in the other file, which is free, and has this one destaged.
// mu is held.
func (j *Journal) rotate() {
	j.through = j.number
	j.busy = j.files[j.current].last > j.destaged
	j.current = 1 - j.current
	f := &j.files[j.current]
	f.tail, f.salt, f.broken = 0, newSalt(), false
	if !j.busy {
		j.destaged = j.through
		return
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Commit makes extents durable that have been written to their bundles, between Begin
// and End. After an error the batch may or may not be found after a crash, and nothing
// more is appended to this file.
func (j *Journal) Commit(extents []bundle.Extent) error {
	f := &j.files[j.current]
	head := header{Number: j.number + 1, Salt: f.salt, Destaged: j.destaged}
	buffers, length := encodeBatch(&head, extents)
	if f.tail+length > j.size {
		return j.flush()
	}
	j.number++
	err := f.Writev(buffers, f.tail)
	if err == nil {
		j.config.Flushes.Add(1)
		err = f.Datasync()
	}
	if err != nil {
		f.broken = true
		return fmt.Errorf("journal: %w", err)
	}
	j.config.BytesWritten.Add(uint64(length))
	f.tail += length
	f.last, j.noted = j.number, head.Destaged
	return nil
}

// flush is for a batch too large for the journal: it flushes the bundles
// themselves. A failure may have cost pages of earlier batches, which are
// written again; this batch has failed. mu is held.
func (j *Journal) flush() error {
	err := j.syncfs()
	if err == nil {
		j.destaged = j.number
		return nil
	}
	j.repair()
	return err
}

// Repair is called after others have failed to flush files of the bundles: that may
// have cost pages of batches that count as durable.
func (j *Journal) Repair() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.repair()
}

// repair writes again what only the journal has. mu is held.
func (j *Journal) repair() {
	if j.config.Err() != nil {
		return // the next start replays the journal
	}
	if err := j.rescue(); err != nil {
		j.config.TakeOut(err)
	}
}

func (j *Journal) syncfs() error {
	j.config.Flushes.Add(1)
	return j.directory.SyncFS()
}

// run destages when a file is full and when there is nothing else to do.
func (j *Journal) run() {
	defer close(j.stopped)
	idle := time.NewTicker(idleAfter)
	defer idle.Stop()
	seen := uint64(0)
	for {
		select {
		case <-j.stopping:
			return
		case <-j.wake:
			j.destage()
		case answer := <-j.requests:
			answer <- j.drain()
		case <-idle.C:
			j.mu.Lock()
			isIdle := j.number == seen
			seen = j.number
			j.mu.Unlock()
			if isIdle {
				_ = j.drain() // it has taken the device out if it must
			}
		}
	}
}

// destage makes the batches of the file that is not current durable in their
// bundles. When that fails they are written again from the journal, once.
func (j *Journal) destage() {
	j.mu.Lock()
	busy, through := j.busy, j.through
	j.mu.Unlock()
	if !busy {
		return
	}
	err := j.syncfs()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		// Pages may be lost, those of the batches written meanwhile as well.
		j.config.Failed(err)
		j.repair()
	} else {
		j.destaged = max(j.destaged, through)
	}
	j.busy = false
	j.freed.Broadcast()
}

// rescue writes every batch that is only in the journal to its bundles again,
// and flushes them. mu is held.
func (j *Journal) rescue() error {
	for _, i := range []int{1 - j.current, j.current} {
		f := &j.files[i]
		if f.last <= j.destaged {
			continue
		}
		r := reader{file: f.File, size: f.tail}
		for r.offset < f.tail {
			head, extents, err := r.next()
			if err == nil && head.Number > j.destaged {
				err = restore(j.config.Files, extents, false)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := j.syncfs(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.destaged = j.number
	return nil
}

func restore(files *bundle.Files, extents []bundle.Extent, damage bool) error {
	for _, e := range extents {
		if err := files.Restore(e, damage); err != nil {
			return err
		}
	}
	return nil
}

// drain makes all that is in the journal durable in the bundles and leaves a
// note of that, so that none of it is replayed. Only the goroutine calls it, or
// Close after that has ended; for all others there is Settle.
func (j *Journal) drain() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for through := j.number; ; {
		if err := j.config.Err(); err != nil {
			return err
		}
		if !j.busy && j.destaged < through {
			j.rotate()
		}
		if !j.busy {
			break
		}
		j.mu.Unlock()
		j.destage()
		j.mu.Lock() // writers may have filled the next file meanwhile
	}
	if j.noted == j.destaged {
		return nil
	}
	if f := &j.files[j.current]; f.broken || f.tail+block > j.size {
		j.rotate()
	}
	err := j.note()
	if err != nil {
		j.config.Failed(err)
	}
	return err
}

// Settle returns when all batches that were durable when it was called are so in
// their bundles, and will not be replayed. What was made from them may then be
// relied upon, and they themselves be removed. No batch waits for it. ErrClosed once Close has
// been called.
func (j *Journal) Settle() error {
	answer := make(chan error, 1)
	select {
	case j.requests <- answer:
	case <-j.stopping:
		return ErrClosed
	}
	return <-answer
}

// note writes an empty batch, which says how far the bundles are durable. mu is
// held.
func (j *Journal) note() error {
	all := j.destaged == j.number
	err := j.Commit(nil)
	if err == nil && all {
		j.destaged, j.noted = j.number, j.number
	}
	return err
}

// Close ends the goroutine, brings the bundles up to date unless the device is
// out, and closes the files.
func (j *Journal) Close() error {
	close(j.stopping)
	<-j.stopped
	err := j.config.Err()
	if err == nil {
		err = j.drain()
	} else {
		err = nil // already told; the journal stays for the next start
	}
	return errors.Join(err, j.closeFiles(), j.directory.Close())
}
