package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// putChunked sends 64 KiB of unknown length and returns the status.
func (p *process) putChunked(path string) int {
	body := io.MultiReader(strings.NewReader(strings.Repeat("0123456789abcdef", 4<<10)))
	request, err := http.NewRequest("PUT", p.base+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("X-Timestamp", "1700000001.00000")
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("Expect", "100-continue") // so that a refusal is not lost with the rest of the body
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Log(err) // refused in the middle of the body
		return http.StatusInsufficientStorage
	}
	response.Body.Close()
	return response.StatusCode
}

// roomFigures are what /recon/bundles says of the room on a device.
type roomFigures struct {
	FreeBytes, ReserveBytes, Refusals uint64
	Full                              bool
}

func (p *process) room() roomFigures {
	p.t.Helper()
	var all []struct{ Stats roomFigures }
	_, text := p.do("GET", "/recon/bundles", "")
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 {
		p.t.Fatal(err, text)
	}
	return all[0].Stats
}

// A device that is really full answers 507 to PUTs, also to those of unknown
// length, goes on deleting after a kill, and then takes PUTs again without help.
// It is logged once.
func TestFullDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	h := newHome(t, 0)
	root := filepath.Join(h.dir, "devices", "sda")
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", root).CombinedOutput(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", root).Run() })
	p := h.start()
	path := func(i int) string { return fmt.Sprintf("/sda/%d/a/c/o%d", i%64, i) }
	put := func(i int) int { return p.putChunked(path(i)) }
	stored := 0
	for put(stored) == http.StatusCreated {
		stored++
	}
	for range 20 {
		if status := put(stored); status != http.StatusInsufficientStorage {
			t.Fatalf("PUT on the full device: %d", status)
		}
	}
	if s := p.room(); !s.Full || s.Refusals < 20 || s.FreeBytes < s.ReserveBytes || s.FreeBytes > 2*s.ReserveBytes {
		t.Errorf("%d stored: %+v", stored, s)
	}
	log := &p.log
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // killed
	if n := strings.Count(log.String(), "device is full"); n != 1 || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%d times in the log:\n%.3000s", n, log)
	}

	p = h.start()
	if status := put(stored); status != http.StatusInsufficientStorage {
		t.Errorf("PUT after the kill: %d", status)
	}
	for i := range stored {
		if status, text := p.do("DELETE", path(i), "", "X-Timestamp", "1700000002.00000"); status != http.StatusNoContent {
			t.Fatalf("DELETE %d of %d: %d %s", i, stored, status, text)
		}
	}
	for deadline := time.Now().Add(time.Minute); put(stored) != http.StatusCreated || p.room().Full; {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.room())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	if n := strings.Count(p.log.String(), "device has room again"); n != 1 {
		t.Errorf("%d times in the log:\n%.3000s", n, &p.log)
	}
}
