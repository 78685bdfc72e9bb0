package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// openBelow counts this process's open files below root.
func openBelow(t *testing.T, root string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err == nil && strings.HasPrefix(target, root+"/") { // one that is closed by now has no name
			count++
		}
	}
	return count
}

// Under load the open files of a device grow with the partitions that are touched, and stop at bundle_open_files.
func TestOpenFilesLevelOff(t *testing.T) {
	const (
		filesMax   = 24
		partitions = 150
		clients    = 8
		rounds     = 4
		beside     = 6 // lock, journal and what else a device has open beside its segments
	)
	config := testConfig(t)
	config.Device.OpenFilesMax = filesMax
	root := filepath.Join(config.Devices, "sda")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newPatientServer(config)
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	request := func(method string, round, partition int) int {
		path := fmt.Sprintf("/sda/%d/AUTH_a/c/o%d-%d", partition, partition, round)
		r := httptest.NewRequest(method, path, strings.NewReader("body"))
		r.Header.Set("X-Timestamp", fmt.Sprintf("17000000%02d.00000", round))
		r.Header.Set("Content-Type", "text/plain")
		answer := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(answer, r)
		return answer.Code
	}
	var atRest []int
	for round := range rounds {
		var work sync.WaitGroup
		for client := range clients {
			work.Add(1)
			go func() {
				defer work.Done()
				for partition := client; partition < partitions; partition += clients {
					put, get := request("PUT", round, partition), request("GET", round, partition)
					if put != http.StatusCreated || get != http.StatusOK {
						t.Errorf("partition %d: PUT %d, GET %d", partition, put, get)
					}
					if n := openBelow(t, root); n > filesMax+beside+2*clients {
						t.Errorf("%d files open with %d clients", n, clients)
					}
				}
			}()
		}
		work.Wait()
		atRest = append(atRest, openBelow(t, root))
	}
	t.Logf("%d partitions, bundle_open_files = %d: %v files open after each round", partitions, filesMax, atRest)
	for _, n := range atRest {
		if n < filesMax || n > filesMax+beside {
			t.Errorf("%d files open at rest, not %d to %d", n, filesMax, filesMax+beside)
		}
	}
}
