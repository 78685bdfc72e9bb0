package device

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// dropping is a device with a partition of some segments and large files in which some
// names were deleted, and the position of that.
func dropping(t *testing.T, fs vfs.FS, method SyncMethod) (*Device, bundle.Position) {
	o := crashOptions(method)
	d := open(t, fs, "/d", o)
	for i := range 60 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, 0), name, 10, modelBody(name, uint64(10+i%7))))
	}
	for i := range 30 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(d.Delete(locate(name, 0), at(100), name))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, fs, "/d", o) // with a floor from a clean stop
	return d, must[bundle.Position](t)(d.Replica(0, 0).Position())
}

// A dropped partition leaves no file, and is an empty one with another identity,
// before and after a restart. One that was written to since stays.
func TestDrop(t *testing.T) {
	for _, method := range crashMethods {
		fs := vfs.NewMem("/d")
		d, position := dropping(t, fs, method)
		loc := locate("/a/c/40", 0)
		must[State](t)(put(d, loc, "/a/c/40", 200, nil))
		if err := d.Replica(0, 0).Drop(position); !errors.Is(err, ErrChanged) {
			t.Fatal(err)
		}
		wantBody(t, d, loc, []byte{})
		position = must[bundle.Position](t)(d.Replica(0, 0).Position())
		if err := d.Replica(0, 0).Drop(position); err != nil {
			t.Fatal(err)
		}
		for path := range files(t, fs) {
			if strings.HasPrefix(path, "/d/bundles/0/") {
				t.Errorf("%s is left", path)
			}
		}
		wantNotFound(t, d, loc, 0)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, fs, "/d", crashOptions(method))
		wantNotFound(t, d, loc, 0)
		must[State](t)(put(d, loc, "/a/c/40", 5, body(5, 100)))
		if now := must[bundle.Position](t)(d.Replica(0, 0).Position()); now.Bundle == position.Bundle || now.Bundle == (bundle.Position{}).Bundle {
			t.Errorf("the identity is %x again", now.Bundle)
		}
		if damages, _ := d.Damages(); len(damages) > 0 {
			t.Errorf("%+v", damages)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever a crash hits a Drop, all is there or nothing is: nothing that was deleted
// lives again.
func TestCrashWhileDropping(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[bool]int{}
	for round := range 40 {
		mem := vfs.NewMem("/d")
		var left atomic.Int64
		left.Store(math.MaxInt64)
		faults := vfs.NewFaults(mem, func(op, _ string) error {
			if (op == "remove" || op == "syncdir" || op == "create") && left.Add(-1) < 0 {
				return syscall.EIO
			}
			return nil
		})
		d, position := dropping(t, faults, crashMethods[round%len(crashMethods)])
		left.Store([]int64{rng.Int64N(3), rng.Int64N(40)}[rng.IntN(2)]) // early enough to keep the mark from being made, or later
		err := d.Replica(0, 0).Drop(position)
		after := mem.CrashClone(rng)
		_ = d.Close()
		again := open(t, after, "/d", crashOptions(crashMethods[round%len(crashMethods)]))
		isThere := false
		for i := range 60 {
			name := fmt.Sprintf("/a/c/%d", i)
			_, _, lookUp := get(again, locate(name, 0))
			var none *NotFoundError
			switch {
			case lookUp == nil && i >= 30 && (i == 30 || isThere):
				isThere = true
			case errors.As(lookUp, &none) && (i < 30 || !isThere):
			default:
				t.Fatalf("round %d: %s: %v after %v", round, name, lookUp, err)
			}
		}
		seen[isThere]++
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Fatalf("%v", seen)
	}
}

// A dropped partition leaves nothing of its bundle in memory.
func TestDropForgetsTheWriter(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", crashOptions(SyncFdatasync))
	for range 3 {
		must[State](t)(put(d, locate("/a/c/o", 0), "/a/c/o", 10, nil))
		position := must[bundle.Position](t)(d.Replica(0, 0).Position())
		if err := d.Replica(0, 0).Drop(position); err != nil {
			t.Fatal(err)
		}
	}
	d.committer.mu.Lock()
	defer d.committer.mu.Unlock()
	if n := len(d.committer.writers); n > 0 {
		t.Errorf("the writers of %d dropped bundles are kept", n)
	}
}

// A device without room gets some back by dropping a partition.
func TestDropOnAFullDevice(t *testing.T) {
	for _, method := range crashMethods {
		fs := vfs.NewMem("/d")
		d, position := dropping(t, fs, method)
		fs.SetLimit(1)
		if err := d.Replica(0, 0).Drop(position); err != nil {
			t.Errorf("%v: %v", method, err)
		}
		fs.SetLimit(0)
		wantNotFound(t, d, locate("/a/c/40", 0), 0)
	}
}

// What a split has left of a partition goes before its halves may be dropped: without
// them it would be taken for a partition of the higher power.
func TestHalvesOutliveTheirPartition(t *testing.T) {
	mem := vfs.NewMem("/d")
	isSick := false
	d := open(t, vfs.NewFaults(mem, func(op, name string) error {
		if isSick && op == "remove" && name == "/d/bundles/1/00000001-0000.bundle" {
			return syscall.EIO
		}
		return nil
	}), "/d", Options{splitByHand: true})
	name := modelNames[slices.IndexFunc(modelNames, func(n string) bool { return locate(n, modelBits).Partition == 1 })]
	loc := locate(name, modelBits+1)
	must[State](t)(put(d, locate(name, modelBits), name, 1, modelBody(name, 1)))
	if err := errors.Join(d.PrepareIncrease(0, modelBits), d.RaisePartPower(0, modelBits+1)); err != nil {
		t.Fatal(err)
	}
	isSick = true
	if _, err := d.Split(0, true); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	half := d.Replica(0, loc.Partition)
	if err := half.Drop(must[bundle.Position](t)(half.Position())); !errors.Is(err, ErrUnfinished) {
		t.Error(err)
	}
	crashed := open(t, mem.KillClone(), "/d", Options{splitByHand: true})
	if err := finishRaise(crashed); err != nil {
		t.Fatal(err)
	}
	for _, n := range modelNames { // partition 1 of the higher power, too
		must[State](t)(put(crashed, locate(n, modelBits+1), n, 2, modelBody(n, 2)))
	}
	isSick = false
	if err := finishRaise(d); err != nil {
		t.Fatal(err)
	}
	if err := half.Drop(must[bundle.Position](t)(half.Position())); err != nil {
		t.Error(err)
	}
	wantNotFound(t, d, loc, 0)
	if err := errors.Join(crashed.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
}
