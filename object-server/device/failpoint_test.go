package device

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

// failpointHistory is set in the environment of a process that runs into a
// failpoint: how many writers its history has.
const failpointHistory = "MARTLET_FAILPOINT_TEST_WRITERS"

// failpointOptions lets segments roll often.
var failpointOptions = Options{SpillBytes: smallSpill, SegmentBytes: 4 << 10, CheckpointBytes: 1 << 10, Logger: quiet, splitByHand: true}

// runIntoFailpoint is the process that gets killed: it writes a history, says
// each step aloud, and stops cleanly if it comes that far.
func runIntoFailpoint(root, writers string) error {
	n, err := strconv.Atoi(writers)
	if err != nil {
		return err
	}
	d, err := Open(vfs.OS{}, root, failpointOptions)
	if err != nil {
		return err
	}
	m := newModel()
	m.watch = func(e event) { fmt.Println(e.acked, e.name, e.ticks, e.meta, e.deleted) }
	h := history{seed: 5, writers: n, changes: 240, ticks: smallTicks, raises: true}
	return errors.Join(h.run(d, m), d.Close())
}

// SIGKILL at every named place loses nothing acknowledged, and leaves nothing
// that a restart cannot do with.
func TestFailpoints(t *testing.T) {
	for _, point := range failpoint.All {
		for _, writers := range []int{1, 2} {
			for _, nth := range []int{1, 2, 4} {
				if point == failpoint.Padding && nth > 1 {
					continue // a process stops once
				}
				t.Run(fmt.Sprintf("%s@%d-%d", point, nth, writers), func(t *testing.T) {
					t.Parallel()
					root := t.TempDir()
					m := killAt(t, root, point, nth, writers)
					checkKilled(t, root, m)
				})
			}
		}
	}
}

// killAt runs a process on root until it is killed when it reaches a point for
// the nth time, and returns what it had said.
func killAt(t *testing.T, root string, point failpoint.Point, nth, writers int) *model {
	t.Helper()
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), killDirectory+"="+root, fmt.Sprintf("%s=%d", failpointHistory, writers),
		fmt.Sprintf("%s=%s=kill@%d", failpoint.Environment, point, nth))
	killed.Stderr = os.Stderr
	pipe, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	m := newModel()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var e event
		if n, _ := fmt.Sscan(lines.Text(), &e.acked, &e.name, &e.ticks, &e.meta, &e.deleted); n == 5 {
			m.apply(e)
		}
	}
	var exit *exec.ExitError
	if err := killed.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s was not reached %d times: %v", point, nth, err)
	}
	return m
}

// checkKilled opens what the process left, twice, and writes to it.
func checkKilled(t *testing.T, root string, m *model) {
	t.Helper()
	for round := range 2 {
		d := open(t, vfs.OS{}, root, failpointOptions)
		if err := m.checkAll(d, round > 0); err != nil {
			t.Fatalf("opened %d times: %v", round+1, err)
		}
		for _, name := range modelNames {
			if err := m.do(d, change{"put", name, 2 * smallTicks}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(m.checkAll(d, true), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
