// Command illdisk mounts a directory at a second place, as a disk that can be
// made ill: real servers run on it in tests.
//
//	illdisk DIRECTORY MOUNTPOINT
//
// It prints "ready", and then reads commands, one a line, and answers "ok" to most:
//
//	bad SUFFIX OFFSET LENGTH   reads of files with names that end so fail with EIO where they touch these bytes
//	hang                       no call returns
//	hold SUFFIX                reads of files with names that end so do not return
//	held                       is answered with the number of reads that do not return
//	full                       calls that need space fail with ENOSPC
//	heal                       all is as before; what hangs goes on
//
// At the end of its input it heals and unmounts. It needs root and FUSE.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: illdisk DIRECTORY MOUNTPOINT"))
	}
	illness := newIllness()
	server, err := mount(os.Args[1], os.Args[2], illness)
	if err != nil {
		fail(err)
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "held" {
			fmt.Println(illness.held.Load())
		} else if err := illness.command(lines.Text()); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("ok")
		}
	}
	illness.heal()
	// Servers that were killed may hold files open: the mount goes away with the last of them.
	if err := unix.Unmount(os.Args[2], unix.MNT_DETACH); err != nil {
		fail(err)
	}
	server.Wait()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "illdisk:", err)
	os.Exit(1)
}

func mount(directory, mountPoint string, illness *illness) (*fuse.Server, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, err
	}
	data := &fs.LoopbackRoot{Path: directory}
	root := &node{LoopbackNode: fs.LoopbackNode{RootData: data}, illness: illness}
	data.RootNode = root
	second := time.Second
	raw := fs.NewNodeFS(root, &fs.Options{EntryTimeout: &second, AttrTimeout: &second})
	server, err := fuse.NewServer(&disk{raw, illness}, mountPoint, &fuse.MountOptions{
		DirectMount: true, AllowOther: true, FsName: "illdisk", Name: "illdisk",
		MaxWrite: 512 << 10, // a read of 1 MiB and its header are more than a pipe takes
	})
	if err != nil {
		return nil, err
	}
	go server.Serve()
	return server, server.WaitMount()
}

// illness says what is wrong with the disk now.
type illness struct {
	mu      sync.Mutex
	healthy chan struct{} // closed while calls return
	bad     []extent
	full    atomic.Bool

	hold    string        // reads of files with names that end so wait; empty: none
	holding chan struct{} // until this is closed
	held    atomic.Int64
}

// extent is a place that cannot be read.
type extent struct {
	suffix         string
	offset, length int64
}

func newIllness() *illness {
	healthy := make(chan struct{})
	close(healthy)
	return &illness{healthy: healthy}
}

func (i *illness) command(line string) error {
	var bad extent
	switch word, _, _ := strings.Cut(line, " "); word {
	case "hang":
		i.hang()
	case "full":
		i.full.Store(true)
	case "hold":
		return i.holdReads(strings.TrimPrefix(line, "hold "))
	case "heal":
		i.heal()
	case "bad":
		if _, err := fmt.Sscanf(line, "bad %s %d %d", &bad.suffix, &bad.offset, &bad.length); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		i.mu.Lock()
		i.bad = append(i.bad, bad)
		i.mu.Unlock()
	default:
		return fmt.Errorf("%q is no command", line)
	}
	return nil
}

func (i *illness) hang() {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case <-i.healthy:
		i.healthy = make(chan struct{})
	default: // it hangs already
	}
}

func (i *illness) holdReads(suffix string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hold != "" {
		return fmt.Errorf("reads are held already")
	}
	i.hold, i.holding = suffix, make(chan struct{})
	return nil
}

func (i *illness) heal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bad = nil
	i.full.Store(false)
	if i.hold != "" {
		close(i.holding)
		i.hold = ""
	}
	select {
	case <-i.healthy:
	default:
		close(i.healthy)
	}
}

// wait returns when the disk does not hang.
func (i *illness) wait() {
	i.mu.Lock()
	healthy := i.healthy
	i.mu.Unlock()
	<-healthy
}

// waitForSpace returns when the disk does not hang, and tells whether it has space.
func (i *illness) waitForSpace() fuse.Status {
	i.wait()
	if i.full.Load() {
		return fuse.Status(syscall.ENOSPC)
	}
	return fuse.OK
}

// waitToRead returns when reads of the file return.
func (i *illness) waitToRead(name string) {
	i.mu.Lock()
	isHeld, holding := i.hold != "" && strings.HasSuffix(name, i.hold), i.holding
	i.mu.Unlock()
	if isHeld {
		i.held.Add(1)
		<-holding
		i.held.Add(-1)
	}
}

// isBad tells whether a read touches a place that cannot be read.
func (i *illness) isBad(name string, offset, length int64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, bad := range i.bad {
		if strings.HasSuffix(name, bad.suffix) && offset < bad.offset+bad.length && bad.offset < offset+length {
			return true
		}
	}
	return false
}

// node is a file or directory whose files can have bad places.
type node struct {
	fs.LoopbackNode
	illness *illness
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: child.(*fs.LoopbackNode).RootData}, illness: n.illness}
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, _, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return n.open(n.Path(nil), handle)
}

// Create implements fs.NodeCreater.
func (n *node) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, handle, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	opened, fuseFlags, errno := n.open(filepath.Join(n.Path(nil), name), handle)
	return child, opened, fuseFlags, errno
}

// open makes a handle whose reads can fail. Those of bundles pass the kernel's
// cache, which would hide that; databases are mapped, so theirs cannot.
func (n *node) open(name string, handle fs.FileHandle) (fs.FileHandle, uint32, syscall.Errno) {
	var flags uint32
	if strings.Contains(name, "bundles") {
		flags = fuse.FOPEN_DIRECT_IO
	}
	return &file{handle.(*fs.LoopbackFile), name, n.illness}, flags, 0
}

type file struct {
	*fs.LoopbackFile
	name    string
	illness *illness
}

// Read implements fs.FileReader.
func (f *file) Read(ctx context.Context, p []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	f.illness.waitToRead(f.name)
	if f.illness.isBad(f.name, offset, int64(len(p))) {
		return nil, syscall.EIO
	}
	return f.LoopbackFile.Read(ctx, p, offset)
}

// PassthroughFd implements fs.FilePassthroughFder: the kernel is not to read the
// file by itself.
func (f *file) PassthroughFd() (int, bool) { return 0, false }
