package server

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// wholeFrames are the parts of a file of pending rows that can be read.
func wholeFrames(content []byte) (text string) {
	for len(content) >= 12 {
		length := uint64(binary.LittleEndian.Uint32(content[4:]))
		if string(content[:4]) == "MLAP" && length <= uint64(len(content)-12) {
			frame := content[:12+length]
			sum := crc32.Update(crc32.Checksum(frame[4:8], frameTable), frameTable, frame[12:])
			if sum == binary.LittleEndian.Uint32(frame[8:]) {
				text, content = text+string(frame[12:]), content[len(frame):]
				continue
			}
		}
		content = content[1:]
	}
	return text
}

var frameTable = crc32.MakeTable(crc32.Castagnoli)

// damageStress writes objects while files of pending rows are damaged.
type damageStress struct {
	*unsavedFixture
	rng   *rand.Rand
	end   time.Time
	next  atomic.Int64 // of the last write
	flips int

	mu        sync.Mutex
	last      map[string]string // time of the last acknowledged write of a name; guarded by mu
	delivered map[string]bool   // names and times; nil before the end
}

// Whatever is damaged in the files of pending rows, and when: each acknowledged write has its row, or one of a later write,
// delivered or pending, in this process or in one that begins after a kill.
func TestNoDamageTakesARow(t *testing.T) {
	f, _ := newMendFixture(t, vfs.OS{})
	seed := uint64(time.Now().UnixNano())
	s := &damageStress{unsavedFixture: f, rng: rand.New(rand.NewPCG(seed, 1)), last: map[string]string{}}
	s.end = time.Now().Add(8 * time.Second)
	s.next.Store(2)
	var writers sync.WaitGroup
	for range 4 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			s.write()
		}()
	}
	for time.Now().Before(s.end) {
		f.rows.down.Store(s.rng.IntN(4) > 0)
		time.Sleep(time.Duration(s.rng.IntN(300)) * time.Millisecond)
		s.damage()
	}
	writers.Wait()
	f.rows.down.Store(true)
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(filepath.Join(f.config.Devices, "sda"))); err != nil {
		t.Fatal(err)
	}
	s.noteDelivered()
	s.wait("this process", filepath.Join(f.config.Devices, "sda"))
	opened, err := device.Open(vfs.OS{}, killed, f.config.Device)
	if err != nil {
		t.Fatal(err)
	}
	pending, err := f.server.attach(vfs.OS{}, killed, opened, time.Hour*24*365*100)
	if err != nil {
		t.Fatal(err)
	}
	s.wait("the next process", killed)
	pending.Close()
	_ = opened.Close()
	t.Logf("seed %d: %d names, %d damages, %d kept files", seed, len(s.last), s.flips, len(f.pendingFiles(".damaged")))
}

func (s *damageStress) write() {
	for time.Now().Before(s.end) {
		n := int(s.next.Add(1))
		path, method := fmt.Sprintf("%s-%d", objectPath, n%301), "PUT"
		if n%7 == 0 {
			method = "DELETE"
		}
		got := s.do(method, path, "hello", append(s.rows.headers(), "X-Timestamp", moment(n), "Content-Type", "a/b")...)
		s.mu.Lock()
		if name := filepath.Base(path); got.status < 300 && s.last[name] < moment(n) {
			s.last[name] = moment(n)
		}
		s.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

// damage flips a bit of half of the files, or cuts them off.
func (s *damageStress) damage() {
	for _, name := range s.pendingFiles(".pending") {
		if s.rng.IntN(2) > 0 {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if info, err := file.Stat(); err == nil && info.Size() > 0 {
			at, b := s.rng.Int64N(info.Size()), []byte{0}
			_, _ = file.ReadAt(b, at)
			b[0] ^= 1 << s.rng.IntN(8)
			if s.rng.IntN(6) == 0 {
				_ = file.Truncate(at)
			} else {
				_, _ = file.WriteAt(b, at)
			}
			s.flips++
		}
		file.Close()
	}
}

func (s *damageStress) noteDelivered() {
	s.delivered = map[string]bool{}
	s.rows.mu.Lock()
	defer s.rows.mu.Unlock()
	for _, rows := range s.rows.rows {
		for _, row := range rows {
			s.delivered[row.Name+" "+row.CreatedAt] = true
		}
	}
}

// missing are the acknowledged writes of which the rows are neither delivered nor pending on a device.
func (s *damageStress) missing(root string) (names []string) {
	text := ""
	found, _ := filepath.Glob(filepath.Join(root, "async_pending*", "*.pending"))
	for _, name := range found {
		content, _ := os.ReadFile(name)
		text += wholeFrames(content)
	}
	for name, at := range s.last {
		if !s.delivered[name+" "+at] && !strings.Contains(text, `"name":"`+name+`","created_at":"`+at) {
			names = append(names, name+" "+at)
		}
	}
	return names
}

func (s *damageStress) wait(what, root string) {
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		missing := s.missing(root)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%s: %d of %d rows are lost after %d damages: %.5v", what, len(missing), len(s.last), s.flips, missing)
			return
		}
	}
}
