package updates

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

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
		if p.logs[policy], err = openSegmentLog(fileSystem, root, entry.Name()); err != nil {
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
	log, err := p.log(policy)
	if err != nil {
		return nil, err
	}
	segment, first, err := log.append(updates)
	if err != nil {
		return nil, err
	}
	ids := make([]SavedID, len(updates))
	for i := range ids {
		ids[i] = SavedID{log: log, segment: segment, place: first + i}
	}
	return ids, nil
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
	figures := Figures{Rows: p.Count()}
	oldest := 0.0
	var segments []map[containerName]*Waiting
	for _, log := range p.all() {
		of, containers := log.figures()
		oldest = earliest(oldest, of)
		segments = append(segments, containers...)
	}
	if oldest != 0 {
		figures.OldestAge = max(0, unixNow()-oldest)
	}
	figures.Containers = sum(segments)
	return figures
}

// Close ends the background delivery and waits for it. What is pending stays for the next process.
func (p *Pending) Close() {
	p.stop()
	<-p.ended
	p.others.Wait()
	for _, log := range p.all() {
		log.rotate()
	}
}

func (p *Pending) log(policy int) (*segmentLog, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if log := p.logs[policy]; log != nil {
		return log, nil
	}
	log, err := openSegmentLog(p.fs, p.root, folderName(policy))
	if err != nil {
		return nil, fmt.Errorf("opening pending updates of policy %d: %w", policy, err)
	}
	p.logs[policy] = log
	return log, nil
}

func (p *Pending) all() []*segmentLog {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.logs))
}
