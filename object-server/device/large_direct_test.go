package device

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// putUnknown is put for a sender that does not say how much it will send.
func putUnknown(d *Device, loc Location, name string, ticks uint64, data []byte) (State, error) {
	u, err := d.NewUpload(loc, -1)
	if err != nil {
		return State{}, err
	}
	defer u.Abort()
	for p := data; len(p) > 0; {
		n := min(len(p), 64<<10)
		if _, err := u.Write(p[:n]); err != nil {
			return State{}, err
		}
		p = p[n:]
	}
	return u.Commit(&format.Metadata{Name: name, ContentType: "text/plain", Size: int64(len(data)), Timestamp: at(ticks)})
}

// A power cut at any moment of a large upload, whose parts go past the page cache and through it, leaves the object that
// was there, or all of the new one once that is acknowledged.
func TestPowerCutsWhileLargeBodiesAreWritten(t *testing.T) {
	const name, size = "/a/c/o", 3*largeBuffer + 1234
	loc := locate(name, modelBits)
	for seed, write := range []func(*Device, Location, string, uint64, []byte) (State, error){put, putUnknown} {
		rng := rand.New(rand.NewPCG(uint64(seed), 0))
		mem := vfs.NewMem("/d")
		d := open(t, mem, "/d", Options{noFloor: true})
		must[State](t)(put(d, loc, name, 1, body(1, size)))
		recording := mem.Record()
		must[State](t)(write(d, loc, name, 2, body(2, size)))
		steps := recording.Steps()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for i, step := range steps {
			for state := range step.State.PowerCuts(rng, 4) {
				again := open(t, state, "/d", Options{noFloor: true})
				got, _, err := get(again, loc)
				isOld, isNew := bytes.Equal(got, body(1, size)), bytes.Equal(got, body(2, size))
				if err != nil || !isOld && !isNew || isOld && i == len(steps)-1 {
					t.Errorf("cut after %s of %s, %d of %d: %d bytes, %v", step.Op, step.Name, i+1, len(steps), len(got), err)
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d steps", len(steps))
	}
}

// An error of the disk in the middle of a large upload refuses it, and leaves neither a file nor a place nor room taken.
// A full disk is no failure of the device, any other error is one.
func TestFailedDirectWrites(t *testing.T) {
	const name, size = "/a/c/o", 4*largeBuffer + 1234
	loc := locate(name, modelBits)
	full, broken := fmt.Errorf("full: %w", vfs.ErrNoSpace), errors.New("input/output error")
	for _, cause := range []error{full, broken} {
		for nth := 1; nth <= 5; nth++ {
			for _, write := range []func(*Device, Location, string, uint64, []byte) (State, error){put, putUnknown} {
				mem, writes := vfs.NewMem("/d"), -1
				d := open(t, vfs.NewFaults(mem, func(op, _ string) error {
					if op != "write" || writes < 0 {
						return nil
					}
					if writes++; writes == nth {
						return cause
					}
					return nil
				}), "/d", Options{noFloor: true})
				must[State](t)(put(d, loc, name, 1, body(1, 300)))
				writes = 0
				if _, err := write(d, loc, name, 2, body(2, size)); !errors.Is(err, cause) {
					t.Errorf("write %d: got %v, want %v", nth, err, cause)
				}
				failures := 1
				if cause == full {
					failures = 0
				}
				if got := int(d.failures.Load()); got != failures {
					t.Errorf("write %d, %v: %d failures counted, want %d", nth, cause, got, failures)
				}
				if got := d.room.pending; got != 0 {
					t.Errorf("write %d, %v: %d bytes of room are taken", nth, cause, got)
				}
				if n := len(d.largeCalls.places) + len(d.calls.places) + len(d.operations.places); n != 0 {
					t.Errorf("write %d, %v: %d places are taken", nth, cause, n)
				}
				wantBody(t, d, loc, body(1, 300))
				if found := largeFiles(t, mem, "/d"); len(found) != 0 {
					t.Errorf("write %d, %v: %v are left", nth, cause, found)
				}
				must[State](t)(write(d, loc, name, 3, body(3, size)))
				wantBody(t, d, loc, body(3, size))
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
