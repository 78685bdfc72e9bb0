package updates

import "testing"

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// A round is over when its own writes have ended, whatever began later or ended before.
func TestRounds(t *testing.T) {
	var r rounds
	for range 2 {
		if !isClosed(r.over()) {
			t.Error("no write is under way")
		}
	}
	first, second := r.begin(), r.begin()
	first()
	ended := r.over()
	later := r.begin()
	if isClosed(ended) {
		t.Error("the second is under way")
	}
	second()
	if !isClosed(ended) {
		t.Error("both have ended")
	}
	ended = r.over()
	if isClosed(ended) {
		t.Error("the later one is under way")
	}
	later()
	if !isClosed(ended) {
		t.Error("it has ended")
	}
	r.begin()()
	if !isClosed(r.over()) {
		t.Error("it has ended before")
	}
}
