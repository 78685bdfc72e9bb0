package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The writes that fail while a device is away take it out; it is used again as soon as it is back.
func TestDeviceThatWasAwayForAMoment(t *testing.T) {
	h := newHome(t, 0)
	p := h.start()
	p.put("/sda/1/a/c/o", "x", "1700000000.00000")
	path := filepath.Join(h.dir, "devices", "sda")
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	awaitPut := func(want int) {
		t.Helper()
		for n, deadline := 0, time.Now().Add(time.Minute); ; n++ {
			status, _ := p.do("PUT", fmt.Sprintf("/sda/%d/a/c/o%d", n%1000, n), "x",
				"X-Timestamp", "1700000000.00000", "Content-Type", "a/b")
			if status == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("still %d, want %d\n%s", status, want, p.log.String())
			}
		}
	}
	for range 2 {
		rename(path, path+".away")
		awaitPut(507)
		rename(path+".away", path)
		awaitPut(201)
		p.expectBody("/sda/1/a/c/o", "x")
	}
	// Under `martlet up` what remains is an empty directory.
	rename(path, path+".away")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	awaitPut(507)
	p.awaitLog("was in use and has no martlet-device")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	rename(path+".away", path)
	awaitPut(201)
	p.expectBody("/sda/1/a/c/o", "x")
}

// While a device is away, nothing is written to the directory of its name, and no acknowledged write is lost, though the
// server notices an empty mount point only after a second.
func TestWriteWhileDeviceIsReplaced(t *testing.T) {
	h := newHome(t, 0)
	p := h.start()
	path := filepath.Join(h.dir, "devices", "sda")
	p.put("/sda/0/a/c/o", "x", "1700000000.00000")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	for n, status := 1, 201; status != 507; n++ {
		at := fmt.Sprintf("/sda/%d/a/c/o", n)
		if status, _ = p.do("PUT", at, "x", "X-Timestamp", "1700000000.00000", "Content-Type", "a/b"); status == 201 {
			acknowledged = append(acknowledged, at)
		}
	}
	p.awaitLog("was in use and has no martlet-device")
	if found, err := os.ReadDir(path); len(found) > 0 || err != nil {
		t.Errorf("the mount point has %v, %v", found, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if status, _ := p.do("GET", "/sda/0/a/c/o", ""); status == 200 {
			break
		}
	}
	for _, at := range acknowledged {
		p.expectBody(at, "x")
	}
}
