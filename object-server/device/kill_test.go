package device

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

// killDirectory is set in the environment of the process that gets killed.
const killDirectory = "MARTLET_KILL_TEST_DIRECTORY"

// TestMain turns the test binary into the writing process when asked.
func TestMain(m *testing.M) {
	if root := os.Getenv(killDirectory); root != "" {
		err := error(nil)
		if writers := os.Getenv(failpointHistory); writers != "" {
			err = runIntoFailpoint(root, writers)
		} else {
			err = writeUntilKilled(root)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes from several goroutines and prints each write once it
// is acknowledged.
func writeUntilKilled(root string) error {
	start := uint64(time.Now().UnixMicro() / 10)
	d, err := Open(vfs.OS{}, root, modelOptions)
	if err != nil {
		return err
	}
	var out sync.Mutex
	failed := make(chan error)
	for w := range 8 {
		go func() {
			for i := start; ; i++ {
				name := fmt.Sprintf("/a/c/%d-%d", w, i%20)
				if _, err := put(d, locate(name, 3), name, i, modelBody(name, i)); err != nil {
					failed <- err
				}
				out.Lock()
				fmt.Println(name, i)
				out.Unlock()
			}
		}()
	}
	return <-failed
}

// kill -9 of a real process loses nothing that it had acknowledged.
func TestKilledProcessLosesNothing(t *testing.T) {
	root := t.TempDir()
	acked := map[string]uint64{}
	for round := range 4 {
		killed := exec.Command(os.Args[0])
		killed.Env = append(os.Environ(), killDirectory+"="+root)
		killed.Stderr = os.Stderr
		pipe, err := killed.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		round := readAcks(t, lines, acked, 150+100*round)
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		round += readAcks(t, lines, acked, 1<<30) // what it had still said
		_ = killed.Wait()                         // killed, as it should be
		d := open(t, vfs.OS{}, root, modelOptions)
		for name, ticks := range acked {
			data, m, err := get(d, locate(name, 3))
			if err != nil || m.Timestamp.Ticks < ticks || string(data) != string(modelBody(name, m.Timestamp.Ticks)) {
				t.Fatalf("%s of %d: %v", name, ticks, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d writes acknowledged, %d names", round, len(acked))
	}
}

// readAcks notes up to limit acknowledged writes.
func readAcks(t *testing.T, lines *bufio.Scanner, acked map[string]uint64, limit int) (count int) {
	deadline := time.AfterFunc(patience, func() { panic("the writing process is silent") })
	defer deadline.Stop()
	for count < limit && lines.Scan() {
		name, number, ok := strings.Cut(lines.Text(), " ")
		var ticks uint64
		if _, err := fmt.Sscan(number, &ticks); !ok || err != nil {
			continue // the last line, cut off by the kill
		}
		acked[name] = max(acked[name], ticks)
		count++
	}
	return count
}
