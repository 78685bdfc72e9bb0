package updates

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/vfs"
)

// sickDisk is a file system that fails while isFull.
type sickDisk struct {
	*vfs.Faults
	isFull atomic.Bool
}

func newSickDisk(files vfs.FS) *sickDisk {
	d := &sickDisk{}
	d.Faults = vfs.NewFaults(files, func(op, _ string) error {
		if d.isFull.Load() && op != "readdir" && op != "open" && op != "remove" {
			return vfs.ErrNoSpace
		}
		return nil
	})
	return d
}

// told notes what OnUnsaved says.
type told struct {
	mu   sync.Mutex
	said []bool
}

func (o *told) tell(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, is)
}

func (o *told) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.said)
}

// attachSick takes up a disk that is full.
func attachSick(t *testing.T, u *Updater, root string) (*sickDisk, *Pending, *told) {
	t.Helper()
	disk, said := newSickDisk(vfs.OS{}), &told{}
	p, err := u.Attach(disk, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.OnUnsaved(said.tell)
	disk.isFull.Store(true)
	return disk, p, said
}

func refuse(t *testing.T, u *Updater, p *Pending, target Target, rows ...Row) {
	t.Helper()
	for _, row := range rows {
		if err := u.Deliver(p, 0, []Update{{target, row}}); !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("Deliver: %v", err)
		}
	}
}

// A row that could not be saved arrives, though the disk stays full, once its server is back.
func TestRowsThatCannotBeSavedAreDelivered(t *testing.T) {
	first, second := newContainerServer(t), newContainerServer(t)
	for _, server := range []*containerServer{first, second} {
		server.answer = func(*http.Request) int { return 503 }
	}
	u := newUpdater(t, &places{primaries: []Target{first.target(), second.target()}})
	_, p, said := attachSick(t, u, t.TempDir())
	everywhere := Target{Account: "AUTH_a", Container: "c c"}
	refuse(t, u, p, first.target(), putRow("0"), putRow("1"))
	refuse(t, u, p, everywhere, putRow("2"))
	if figures := p.Figures(); figures.Rows != 3 || figures.Unsaved != 3 {
		t.Errorf("figures %+v", figures)
	}
	first.set(func() { first.answer = func(*http.Request) int { return 202 } })
	await(t, "the first server", func() bool { return len(first.rows()) >= 3 })
	if len(second.rows()) != 0 {
		t.Error("the second takes nothing")
	}
	second.set(func() { second.answer = func(*http.Request) int { return 202 } })
	await(t, "the second server", func() bool { return len(second.rows()) == 1 && p.Unsaved() == 0 && p.Count() == 0 })
	if got := said.String(); got != "[true false]" {
		t.Errorf("told %s", got)
	}
	if got := first.rows(); len(got) != 3 {
		t.Errorf("the first server got %q", got)
	}
}

// A row that could not be saved is saved when the disk has room again, also when it has by the time of the stop.
func TestRowsAreSavedWhenThereIsRoom(t *testing.T) {
	for _, stops := range []bool{false, true} {
		root, server := t.TempDir(), newContainerServer(t)
		server.answer = func(*http.Request) int { return 503 }
		u := newUpdater(t, &places{primaries: []Target{server.target()}})
		disk, p, said := attachSick(t, u, root)
		refuse(t, u, p, server.target(), putRow("0"), putRow("1"))
		if stops {
			p.stop()
			<-p.ended
		}
		disk.isFull.Store(false)
		if !stops {
			await(t, "that they are saved", func() bool { return p.Unsaved() == 0 })
			if p.Count() != 2 {
				t.Errorf("%d are pending", p.Count())
			}
		}
		p.Close()
		if got := said.String(); got != "[true false]" {
			t.Errorf("told %s", got)
		}
		server.set(func() { server.answer = func(*http.Request) int { return 202 } })
		p = attach(t, newUpdater(t, &places{primaries: []Target{server.target()}}), root)
		await(t, "the next process", func() bool { return len(server.rows()) >= 2 && p.Count() == 0 })
	}
}

// A stop on a disk that is still full leaves them unsaved, which the device is told.
func TestAStopLeavesRowsUnsaved(t *testing.T) {
	server := newContainerServer(t)
	server.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{primaries: []Target{server.target()}})
	_, p, said := attachSick(t, u, t.TempDir())
	refuse(t, u, p, server.target(), putRow("o"))
	p.Close()
	if got := said.String(); got != "[true]" {
		t.Errorf("told %s", got)
	}
}

// Memory takes heldMax rows, then the device is full until they are saved.
func TestMemoryIsBounded(t *testing.T) {
	server := newContainerServer(t)
	server.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{primaries: []Target{server.target()}})
	disk, p, _ := attachSick(t, u, t.TempDir())
	updates := make([]Update, heldMax/4)
	for i := range updates {
		updates[i] = Update{Target{Account: "AUTH_a", Container: "c c"}, putRow(fmt.Sprint(i))}
	}
	for range 4 {
		if p.IsFull() {
			t.Fatal("full before its time")
		}
		if err := u.Deliver(p, 3, updates); err == nil || !strings.Contains(err.Error(), "no space") {
			t.Fatal(err)
		}
	}
	if !p.IsFull() {
		t.Errorf("%d are unsaved, and there is room", p.Unsaved())
	}
	disk.isFull.Store(false)
	await(t, "room", func() bool { return !p.IsFull() })
	if p.Count() != heldMax {
		t.Errorf("%d are pending", p.Count())
	}
}
