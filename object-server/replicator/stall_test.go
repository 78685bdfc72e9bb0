package replicator

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/proof"
)

// hang puts a pipe in place of each segment of a device: reading it waits for ever. The server has them open.
func (h *host) hang() (release func()) {
	h.t.Helper()
	var pipes []string
	check(h.t, filepath.WalkDir(filepath.Join(h.device(), "bundles"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".bundle" {
			pipes = append(pipes, path)
		}
		return err
	}))
	for _, path := range pipes {
		check(h.t, os.Rename(path, path+".away"))
		check(h.t, unix.Mkfifo(path, 0o600))
	}
	if len(pipes) == 0 {
		h.t.Fatal("the device has no segments")
	}
	return func() {
		for _, path := range pipes {
			pipe, err := os.OpenFile(path, os.O_RDWR, 0)
			check(h.t, err)
			check(h.t, os.Rename(path+".away", path))
			check(h.t, pipe.Close())
		}
	}
}

// A disk that hangs while the replicator reads it delays neither the end of the pass of other devices, nor the records that
// its peers get from others, nor the end of the process.
func TestADiskThatHangs(t *testing.T) {
	c := newCluster(t, 3)
	c.put("o", 1, content("o", 10), 0, 1)
	r, connections, log := c.hosts[0].replicator(func(config *Config) { config.NodeTimeout = 200 * time.Millisecond })
	defer connections.Close()
	release := c.hosts[0].hang()
	ctx, cancel := context.WithCancel(context.Background())
	report, err := r.Pass(ctx, 10*time.Millisecond)
	if err != nil || report.Running != 1 || report.Partitions != 0 {
		t.Errorf("%+v %v", report, err)
	}
	for deadline := time.Now().Add(time.Minute); c.have("o", 2) == 0 && time.Now().Before(deadline); {
		c.hosts[1].pass() // busy, as long as the other stream is open
	}
	c.wantObject("o", content("o", 10), 2)
	if report, _ := r.Pass(ctx, 10*time.Millisecond); report.Running != 1 {
		t.Errorf("%+v: %s", report, log)
	}
	cancel()
	release()
	for report.Running > 0 {
		report, _ = r.Pass(ctx, time.Second)
	}
}

// A step of a process that was halted has not taken long.
func TestAHaltIsNoStall(t *testing.T) {
	const timeout = 400 * time.Millisecond // of a request; much longer for a step than the rest takes
	w := newWatch(context.Background(), timeout)
	defer w.end()
	over := w.begin()
	proof.Halt(t, stallTimeouts*timeout+time.Second)
	time.Sleep(timeout / 4) // what was due meanwhile has run
	over()
	if w.ctx.Err() != nil {
		t.Error("the halt ended the step")
	}
}
