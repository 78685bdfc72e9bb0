package updates

import (
	"errors"
	"net/http"
	"testing"

	"martlet/object-server/vfs"
)

// A mark is over once what was pending then is delivered, wherever it was moved to, and whatever has come since.
func TestAMarkIsOverBeforeWhatComesLater(t *testing.T) {
	f := newLostFixture(t, vfs.OS{})
	other := newContainerServer(t)
	other.answer = func(*http.Request) int { return 503 }
	f.replay.updater.options.Placement = &places{primaries: []Target{f.server.target(), other.target()}}
	to := func(server *containerServer, names ...string) {
		for _, name := range names {
			if _, err := f.p.Append(0, []Update{{server.target(), putRow(name)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	isOver := func(m Mark) bool { over, isVoid := f.p.IsOver(m); return over && !isVoid }
	answers := func(server *containerServer, status int) {
		server.set(func() { server.answer = func(*http.Request) int { return status } })
		_ = f.deliver()
	}
	to(f.server, "1", "2", "3")
	to(other, "old")
	first := f.p.Mark()
	answers(f.server, 202) // less than half stays, which is written to another file
	to(other, "new")
	second := f.p.Mark()
	if isOver(first) || isOver(second) {
		t.Error("a mark is over while what was pending then waits", isOver(first), isOver(second))
	}
	answers(other, 202)
	if !isOver(first) || !isOver(second) {
		t.Error("a mark is not over though all is delivered")
	}
	answers(other, 503)
	to(other, "later")
	third := f.p.Mark()
	if _ = f.deliver(); !isOver(second) || isOver(third) {
		t.Error("what came later counts", isOver(second), isOver(third))
	}
}

// The same of what a full disk keeps in memory, before and after it can be saved.
func TestAMarkOfUpdatesInMemory(t *testing.T) {
	f := newLostFixture(t, vfs.OS{})
	f.p.hold(0, []Update{{f.server.target(), putRow("held")}}, errors.New("full"))
	mark := f.p.Mark()
	f.p.saveHeld()
	if isOver, _ := f.p.IsOver(mark); isOver || f.p.Unsaved() != 0 {
		t.Error("a row that was saved counts as later;", f.p.Unsaved(), "are in memory")
	}
	later := f.p.Mark()
	f.server.set(func() { f.server.answer = func(*http.Request) int { return 202 } })
	_ = f.deliver()
	for _, m := range []Mark{mark, later} {
		if isOver, isVoid := f.p.IsOver(m); !isOver || isVoid {
			t.Error(isOver, isVoid)
		}
	}
}

// Rows that were made again count as later than a mark of theirs, so the mark is void.
func TestAMarkBeforeALossIsVoid(t *testing.T) {
	f := newLostFixture(t, vfs.OS{})
	f.append("1", "2")
	mark := f.p.Mark()
	flipLastBit(t, segmentFiles(t, f.p.root)[0])
	_ = f.deliver()
	if isOver, _ := f.p.IsOver(mark); isOver {
		t.Error("over before the loss is mended")
	}
	for _, one := range f.p.Lost() {
		f.append("again")
		f.p.Mended(one)
	}
	if _, isVoid := f.p.IsOver(mark); !isVoid {
		t.Error("not void")
	}
}
