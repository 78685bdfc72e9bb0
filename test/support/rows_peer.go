// SPDX-License-Identifier: Apache-2.0

// The Go side of test/functional/test_grid_rows.py, built by it as a package of the object server: it sends rows to a
// container server as an object server does.
//
// Each line of its input is a command. "write <first> <count>" delivers that many rows, named by number, from 64 writers,
// and prints how many are pending then; "pending" prints how many are pending now.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

const writers = 64

// place is the only database.
type place struct{ target updates.Target }

func (p place) Primaries(updates.Target) ([]updates.Target, error) {
	return []updates.Target{p.target}, nil
}

func main() {
	secret := flag.String("secret", "none", "")
	host := flag.String("host", "", "")
	root := flag.String("root", "", "directory of pending rows")
	nodeTimeout := flag.Duration("node-timeout", 30*time.Second, "")
	flag.Parse()
	secrets, err := auth.NewSecrets(*secret)
	check(err)
	g, err := grid.New(grid.Config{Secrets: secrets})
	check(err)
	target := updates.Target{Host: *host, Device: "d1", Partition: "0", Account: "AUTH_test", Container: "größe"}
	updater := updates.New(updates.Options{
		UpdateTimeout: 30 * time.Second, ConnTimeout: time.Second, NodeTimeout: *nodeTimeout, BatchDelay: 5 * time.Millisecond,
		RetryFirst: 100 * time.Millisecond, Interval: time.Second, Placement: place{target},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Grid: g,
	})
	pending, err := updater.Attach(vfs.OS{}, *root)
	check(err)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var first, count int
		if n, _ := fmt.Sscanf(input.Text(), "write %d %d", &first, &count); n == 2 {
			write(updater, pending, target, first, count)
		}
		fmt.Println(pending.Count())
	}
}

func write(updater *updates.Updater, pending *updates.Pending, target updates.Target, first, count int) {
	var group sync.WaitGroup
	for writer := range writers {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := first + writer; number < first+count; number += writers {
				row := updates.Row{
					Name: fmt.Sprintf("ö/%06d", number), CreatedAt: fmt.Sprintf("%016.5f", 1.7e9+float64(number)/1000),
					Size: int64(number), ContentType: "text/plain", ETag: fmt.Sprint("e", number),
				}
				check(updater.Deliver(pending, 0, []updates.Update{{Target: target, Row: row}}))
			}
		}()
	}
	group.Wait()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
