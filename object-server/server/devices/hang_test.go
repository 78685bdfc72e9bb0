package devices

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/updates"
)

// hangingOpen makes the devices named hang when they are opened, until end is called.
func (f *fixture) hangingOpen(names ...string) (entered chan string, end func()) {
	f.t.Helper()
	release, open := make(chan struct{}), f.open
	entered = make(chan string, 100)
	for _, name := range names {
		f.mkdir(name)
	}
	f.open = func(path string) (Store, *updates.Pending, error) {
		for _, name := range names {
			if filepath.Base(path) == name {
				entered <- name
				<-release
			}
		}
		return open(path)
	}
	return entered, func() { close(release) }
}

// A device that hangs when it is opened is not available, is opened once, and delays neither the start nor others.
func TestHangingOpeningHoldsNoOther(t *testing.T) {
	f := newFixture(t, false)
	entered, end := f.hangingOpen("sdb", "sdc")
	started := make(chan error, 1)
	go func() { started <- f.OpenPresent(50 * time.Millisecond) }()
	<-entered
	<-entered // in parallel
	f.expect("sda", true, "while others are opened")
	if err := <-started; err != nil {
		t.Error(err)
	}
	f.wait = time.Millisecond
	for range 2 {
		f.expect("sdb", false, "while it is opened")
	}
	f.wait = time.Minute
	f.expect("sda", true, "another device")
	for _, name := range []string{"sdb", "sdc"} {
		if len(entered) != 0 || strings.Count(f.log.String(), "device cannot be used\" device="+name) != 1 {
			t.Errorf("opened %d times more\n%s", len(entered), f.log.String())
		}
	}
	end()
	for !f.isAvailable("sdb") { // the opening ends by itself
	}
}

// A device in use that does not say whether it is there is not available until it does.
func TestDeviceInUseThatDoesNotAnswer(t *testing.T) {
	f := newFixture(t, false)
	f.expect("sda", true, "in order")
	f.wait = time.Millisecond
	entered, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		_, _ = f.looks.Do("sda", time.Hour, func() (fileIdentity, error) { // as a stat that hangs
			close(entered)
			<-release
			return f.examine(filepath.Join(f.root, "sda"))
		})
	}()
	<-entered
	f.age("sda")
	f.expect("sda", false, "it hangs")
	f.expect("sda", false, "it still hangs, by the look of a moment ago")
	close(release)
	<-returned
	f.wait = time.Minute
	f.age("sda")
	f.expect("sda", true, "it answers")
}

// A device that hangs when it is closed delays neither the others nor the end of the process.
func TestClosingOfAHangingDevice(t *testing.T) {
	f := newFixture(t, false)
	f.expect("sda", true, "in order")
	hangs := make(chan struct{})
	f.store.set(nil, hangs)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := f.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(hangs)
}

type closingStore struct {
	*fakeStore
	closed chan struct{}
	once   sync.Once
}

func (c *closingStore) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// A device that hangs when it is opened does not keep the others from being closed.
func TestHangingOpeningKeepsNoOtherFromClosing(t *testing.T) {
	f := newFixture(t, false)
	own := &closingStore{fakeStore: f.store, closed: make(chan struct{})}
	open := f.open
	f.open = func(path string) (Store, *updates.Pending, error) {
		_, pending, err := open(path)
		return own, pending, err
	}
	f.expect("sda", true, "in order")
	entered, end := f.hangingOpen("sdb")
	defer end()
	f.wait = time.Millisecond
	f.expect("sdb", false, "while it is opened")
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Close(ctx) }()
	select {
	case <-own.closed:
	case <-time.After(time.Minute):
		t.Error("the device in order has not been closed")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
