package calls

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"martlet/object-server/proof"
)

// One call of a name runs at a time; a caller that waits gets its result, or the last one.
func TestCallsDoNotWaitForever(t *testing.T) {
	g := New[int](true)
	answer := func() (int, error) { return 7, nil }
	if n, err := g.Do("a", time.Minute, answer); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	release, asked := make(chan struct{}), 0
	for range 3 {
		n, err := g.Do("a", time.Millisecond, func() (int, error) {
			asked++
			<-release
			return 8, nil
		})
		if n != 7 || !errors.Is(err, ErrNoAnswer) {
			t.Error(n, err)
		}
	}
	values, errs := g.DoAll([]string{"b", "c"}, func(string) (int, error) { return 9, nil })
	if fmt.Sprint(values, errs) != "[9 9] [<nil> <nil>]" {
		t.Error(values, errs)
	}
	close(release)
	if n, err := g.Do("a", time.Minute, answer); err != nil || n != 8 && n != 7 || asked != 1 {
		t.Error(n, err, asked)
	}
}

// A halt of the process is no time for a device to answer.
func TestHaltDoesNotCount(t *testing.T) {
	const wait = 2 * time.Second // much longer than the rest takes, also on a busy machine
	g := New[int](false)
	entered, release, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := g.Do("a", wait, func() (int, error) {
			close(entered)
			<-release
			return 1, nil
		})
		returned <- err
	}()
	<-entered
	proof.Halt(t, wait+time.Second)
	close(release)
	if err := <-returned; err != nil {
		t.Error(err)
	}
}
