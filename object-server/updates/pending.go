package updates

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"martlet/object-server/vfs"
)

// folder holds the pending updates of policy 0; those of policy N are in folder-N.
const folder = "async_pending"

// Pending keeps the updates that could not be delivered on the device whose objects they speak of, and delivers them
// in the background. It is safe for concurrent use.
type Pending struct {
	fs     vfs.FS
	root   string
	logger *slog.Logger
	said   *reporter
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	ended  chan struct{}
	work   *sync.WaitGroup // of the Updater
	others sync.WaitGroup  // what Go runs

	mu   sync.Mutex
	logs map[int]*segmentLog // by policy index

	writes rounds // of objects, under way
	marks  marks

	heldMu sync.Mutex   // held while held is counted and told
	held   atomic.Int64 // updates in memory alone
	tell   func(bool)   // guarded by heldMu; may be nil
}

// SavedID is the place of one saved update.
type SavedID struct {
	log     *segmentLog
	segment *segment
	place   int
}

// Attach takes up the pending updates under root, a device, and goes on delivering them until Close.
func (u *Updater) Attach(fileSystem vfs.FS, root string) (*Pending, error) {
	p := &Pending{fs: fileSystem, root: root, logger: u.options.Logger, logs: map[int]*segmentLog{},
		said: &reporter{logger: u.options.Logger}, ended: make(chan struct{}), work: &u.work}
	entries, err := fileSystem.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		policy, ok := parseFolder(entry.Name())
		if !ok || !entry.IsDir() {
			continue
		}
		if p.logs[policy], err = openSegmentLog(fileSystem, root, entry.Name(), &p.marks); err != nil {
			return nil, err
		}
	}
	p.ctx, p.stop = context.WithCancel(u.ctx)
	u.work.Add(1)
	go func() {
		defer u.work.Done()
		defer close(p.ended)
		(&replay{updater: u, pending: p}).run(p.ctx)
	}()
	return p, nil
}

func folderName(policy int) string {
	if policy == 0 {
		return folder
	}
	return folder + "-" + strconv.Itoa(policy)
}

func parseFolder(name string) (policy int, ok bool) {
	rest, found := strings.CutPrefix(name, folder)
	if !found {
		return 0, false
	}
	if rest == "" {
		return 0, true
	}
	policy, err := strconv.Atoi(strings.TrimPrefix(rest, "-"))
	return policy, err == nil && policy > 0 && folderName(policy) == name
}

// Append makes updates durable: on return they survive any crash. All belong to objects of one policy.
func (p *Pending) Append(policy int, updates []Update) ([]SavedID, error) {
	log := p.log(policy)
	segment, first, err := log.append(updates)
	if err != nil {
		return nil, err
	}
	return idsOf(log, segment, first, len(updates)), nil
}

func idsOf(log *segmentLog, segment *segment, first, count int) []SavedID {
	ids := make([]SavedID, count)
	for i := range ids {
		ids[i] = SavedID{log: log, segment: segment, place: first + i}
	}
	return ids
}

// Delivered spares the replay of an update that arrived after all.
func (p *Pending) Delivered(id SavedID) { id.log.markArrived(id.segment, id.place) }

// Go calls find in the background, which may append updates. Close ends its context and waits for it. Go must not be called
// after Close.
func (p *Pending) Go(find func(ctx context.Context)) {
	p.work.Add(1)
	p.others.Add(1)
	go func() {
		defer p.work.Done()
		defer p.others.Done()
		find(p.ctx)
	}()
}

// Count returns how many updates are pending; those left by an earlier process count once they were read.
func (p *Pending) Count() int {
	total := 0
	for _, log := range p.all() {
		total += log.count()
	}
	return total
}

// Figures returns what is pending, and why.
func (p *Pending) Figures() Figures {
	figures := Figures{Rows: p.Count(), Unsaved: p.Unsaved()}
	oldest := 0.0
	var segments []map[containerName]*Waiting
	for _, log := range p.all() {
		of, containers := log.figures()
		oldest = earliest(oldest, of)
		segments = append(segments, containers...)
		figures.Damaged += log.damagedCount()
	}
	if oldest != 0 {
		figures.OldestAge = max(0, unixNow()-oldest)
	}
	figures.Containers = sum(segments)
	return figures
}

// Close ends the background delivery and waits for it. What is pending stays for the next process, unless it is in
// memory alone and the disk does not take it now either.
func (p *Pending) Close() {
	p.stop()
	<-p.ended
	p.others.Wait()
	p.saveHeld()
	for _, log := range p.all() {
		log.rotate()
	}
}

func (p *Pending) log(policy int) *segmentLog {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.logs[policy]
	if log == nil { // there was no such directory when p was attached
		log = newSegmentLog(p.fs, p.root, folderName(policy), &p.marks)
		p.logs[policy] = log
	}
	return log
}

func (p *Pending) all() []*segmentLog {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.logs))
}
