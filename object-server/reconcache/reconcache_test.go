package reconcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

func read(t *testing.T, directory string, keys ...string) map[string]any {
	t.Helper()
	text, err := json.Marshal(Read(directory, "object", keys))
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]any
	if err := json.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	return shown
}

func update(t *testing.T, directory string, figures map[string]any) {
	t.Helper()
	if err := Update(directory, "object", figures); err != nil {
		t.Fatal(err)
	}
}

// Keys of other programs stay; maps are merged; an empty map removes.
func TestUpdateMerges(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "made", "when missing")
	nothing := map[string]any{"a": nil, "disks": nil}
	if got := read(t, directory, "a", "disks"); !reflect.DeepEqual(got, nothing) {
		t.Fatalf("before the first update: %v", got)
	}
	update(t, directory, map[string]any{"a": 1.5, "disks": map[string]any{"d1": 1, "d2": 2}})
	update(t, directory, map[string]any{"b": 7, "disks": map[string]any{"d2": 3, "d1": map[string]any{}}})
	want := map[string]any{"a": 1.5, "b": 7.0, "disks": map[string]any{"d2": 3.0}}
	if got := read(t, directory, "a", "b", "disks"); !reflect.DeepEqual(got, want) {
		t.Fatalf("after two updates: %v", got)
	}
	update(t, directory, map[string]any{"disks": map[string]any{}})
	if got := read(t, directory, "a", "disks"); got["disks"] != nil || got["a"] != 1.5 {
		t.Fatalf("after the removal: %v", got)
	}
}

// A damaged file is none, and the next update replaces it.
func TestDamagedFile(t *testing.T) {
	for _, text := range []string{"{", "[]", "null", "{}\n{", "{\"a\": "} {
		directory := t.TempDir()
		if err := os.WriteFile(path(directory, "object"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := read(t, directory, "a"); got["a"] != nil {
			t.Errorf("%q: %v", text, got)
		}
		update(t, directory, map[string]any{"a": true})
		if got := read(t, directory, "a"); got["a"] != true {
			t.Errorf("%q, updated: %v", text, got)
		}
	}
}

// Writers at the same time lose nothing, and leave nothing else in the directory.
func TestManyWriters(t *testing.T) {
	directory := t.TempDir()
	var wait sync.WaitGroup
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprintf("key%d", i)
		wait.Add(1)
		go func() {
			defer wait.Done()
			one := map[string]any{keys[i]: i}
			err := Update(directory, "object", one)
			for end := time.Now().Add(time.Minute); errors.Is(err, errLocked) && time.Now().Before(end); {
				err = Update(directory, "object", one) // on a busy machine, others hold the lock for longer
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	for i, key := range keys {
		if got := read(t, directory, key)[key]; got != float64(i) {
			t.Errorf("%s is %v", key, got)
		}
	}
	found, err := os.ReadDir(directory)
	if err != nil || len(found) != 1 {
		t.Errorf("the directory has %v, %v", found, err)
	}
}

// A program that hangs with the lock costs the figures, not the caller.
func TestHeldLock(t *testing.T) {
	directory := t.TempDir()
	file, err := lock(path(directory, "object"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := Update(directory, "object", map[string]any{"a": 1}); !errors.Is(err, errLocked) {
		t.Error("the lock did not hold")
	}
}
