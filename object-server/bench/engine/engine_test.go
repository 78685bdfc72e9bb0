package main

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// TestMain is the process that recovery starts, when asked.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == recoveryChild {
		fail(runRecoveryChild(os.Args[2]))
		return
	}
	dropCaches = func() error { return errors.New("not in a test") }
	os.Exit(m.Run())
}

// Each benchmark goes through at a small size, and has figures to tell.
func TestBenchmarksRun(t *testing.T) {
	for _, b := range benchmarks {
		t.Run(b.name, func(t *testing.T) {
			s := &settings{dir: t.TempDir(), objects: 200, size: 1000, partitions: 16, writers: 8, rounds: 1}
			var r report
			if err := b.run(s, &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Figures) == 0 {
				t.Fatal("no figures")
			}
			t.Logf("%+v", r)
		})
	}
}

func TestWhatIsDoneInParallelIsDoneOnce(t *testing.T) {
	done := make([]int, 1000)
	if err := parallel(7, len(done), func(i int) error { done[i]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, times := range done {
		if times != 1 {
			t.Fatalf("%d was done %d times", i, times)
		}
	}
	broken := errors.New("broken")
	err := parallel(7, 1000, func(i int) error {
		if i >= 500 {
			return fmt.Errorf("%d: %w", i, broken)
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

func TestObjectsKeepToTheirPartitions(t *testing.T) {
	for _, partitions := range []int{1, 2, 1024} {
		s := settings{partitions: partitions}
		seen := map[uint32]bool{}
		for i := range 20 * partitions {
			seen[s.place(nameOf(i)).Partition] = true
		}
		if len(seen) != partitions {
			t.Errorf("%d of %d partitions are used", len(seen), partitions)
		}
	}
}
