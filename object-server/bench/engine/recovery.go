package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"martlet/object-server/vfs"
)

// recoveryChild is the subcommand of the processes that recovery starts; its
// argument is a JSON recoveryOrder.
const recoveryChild = "recovery-child"

// recoveryOrder says what a child does: it fills the device and writes until
// it is killed, or it opens what is there.
type recoveryOrder struct {
	Dir        string
	Objects    int
	Size       int
	Partitions int
	Writers    int
	Segment    int64
	Sync       string
	Delay      time.Duration
	Open       bool
}

// opened is what an opening child tells.
type opened struct {
	FirstGet, AllOpen time.Duration // since the process could tell the time
	ReadBytes         uint64
}

// underLoad is how long the child writes before it is killed.
const underLoad = 2 * time.Second

// recovery kills a process that writes, and opens the device in another one.
func recovery(s *settings, r *report) error {
	order := recoveryOrder{s.dir, s.objects, s.size, s.partitions, s.writers, s.segment, s.sync, s.delay, false}
	start := time.Now()
	child, out, err := order.start()
	if err != nil {
		return err
	}
	var filled bool
	if err := json.NewDecoder(out).Decode(&filled); err != nil {
		return errors.Join(fmt.Errorf("the filling process: %w", err), child.Wait())
	}
	fillTime := time.Since(start)
	time.Sleep(underLoad)
	if err := child.Process.Kill(); err != nil {
		return err
	}
	_ = child.Wait() // killed, as it should be
	if err := syncDirectory(s.dir); err != nil {
		return err
	}
	if err := dropCaches(); err != nil {
		r.note("the page cache is warm: %v", err)
	}
	order.Open = true
	start = time.Now()
	if child, out, err = order.start(); err != nil {
		return err
	}
	var firstGet bool
	decoder := json.NewDecoder(out)
	err = decoder.Decode(&firstGet)
	first := time.Since(start)
	var o opened
	if err == nil {
		err = decoder.Decode(&o)
	}
	if err = errors.Join(err, child.Wait()); err != nil {
		return fmt.Errorf("the opening process: %w", err)
	}
	r.add(fmt.Sprintf("recovery, %d objects: first GET", s.objects), first.Seconds(), "s", "<= 5 with 10,000,000")
	r.add("  every partition open", o.AllOpen.Seconds(), "s", "")
	r.add("  bytes read for it", float64(o.ReadBytes)/1e6, "MB", "")
	r.add("  filling", fillTime.Seconds(), "s", "")
	r.note("filled without flushes; then %v of PUTs with flushes until kill -9", underLoad)
	return nil
}

func (o recoveryOrder) start() (*exec.Cmd, io.Reader, error) {
	argument, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	child := exec.Command("/proc/self/exe", recoveryChild, string(argument))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return child, out, child.Start()
}

func runRecoveryChild(argument string) error {
	var o recoveryOrder
	if err := json.Unmarshal([]byte(argument), &o); err != nil {
		return err
	}
	s := &settings{dir: o.Dir, objects: o.Objects, size: o.Size, partitions: o.Partitions,
		writers: o.Writers, segment: o.Segment, sync: o.Sync, delay: o.Delay}
	if o.Open {
		return s.recover()
	}
	return s.writeUntilKilled()
}

func (s *settings) writeUntilKilled() error {
	files := &counted{FS: vfs.OS{}}
	d, err := s.open(files)
	if err != nil {
		return err
	}
	if err := s.fill(d, files, 0, s.objects); err != nil {
		return err
	}
	fmt.Println(true)
	return parallel(s.writers, math.MaxInt, func(i int) error { return s.put(d, s.objects+i, 1) })
}

func (s *settings) recover() error {
	start := time.Now()
	files := &counted{FS: vfs.OS{}}
	d, err := s.open(files)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := s.get(d, s.objects/2); err != nil {
		return err
	}
	o := opened{FirstGet: time.Since(start)}
	fmt.Println(true)
	if err := s.openAll(d); err != nil {
		return err
	}
	o.AllOpen, o.ReadBytes = time.Since(start), files.readBytes.Load()
	return json.NewEncoder(os.Stdout).Encode(o)
}
