// Command grid measures the grid beside plain HTTP over kept connections, and its streams beside a bare TCP connection.
// Both servers are in this process, connected over 127.0.0.1. The rounds of the rivals alternate, and the ratio of each
// round is taken within it, so that other load on the machine falls on both.
//
//	grid -rounds 5 -seconds 1 -callers 1,16,128,1024
//	grid -only stalled    # memory and time of requests to a server that stops reading
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// rival answers requests in one way; or moves bytes in one way.
type rival struct {
	name string
	// newCaller returns a function that sends one request and checks its answer, and one that ends the caller.
	newCaller func() (call func() error, end func())
}

// run is one round of one rival.
type run struct {
	PerSecond   float64 `json:"per_second"`  // requests, or MiB
	CPU         float64 `json:"cpu_us"`      // of this process per request, or per MiB
	Allocations float64 `json:"allocations"` // per request, or per MiB
}

// row compares the grid to another rival.
type row struct {
	Load     string  `json:"load"`
	Unit     string  `json:"unit"`
	Grid     run     `json:"grid"`  // medians
	Other    run     `json:"other"` // medians
	Ratio    float64 `json:"ratio"` // median of the rounds' ratios of PerSecond
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 5, "rounds of each rival")
	seconds := flag.Float64("seconds", 1, "of each round")
	callersList := flag.String("callers", "1,16,128,1024", "concurrent callers, a row for each")
	size := flag.Int("size", 512, "bytes of a request and of an answer")
	checksum := flag.Bool("checksum", true, "the grid's messages have checksums")
	only := flag.String("only", "", "measure requests, streams or stalled alone")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the grid's rounds to this `file`")
	asJSON := flag.Bool("json", false, "print a JSON line for each row")
	flag.Parse()
	b := &bench{rounds: *rounds, time: time.Duration(*seconds * float64(time.Second)), size: *size, checksum: *checksum, profile: *profile}
	print := printRow
	if *asJSON {
		print = func(r row) { check(json.NewEncoder(os.Stdout).Encode(r)) }
	} else {
		fmt.Printf("%-22s %12s %12s %8s %15s %9s %9s %7s %7s\n", "load", "grid", "other", "ratio", "(of rounds)", "CPU grid", "other", "allocs", "other")
	}
	if *only == "" || *only == "requests" {
		for field := range strings.SplitSeq(*callersList, ",") {
			callers, err := strconv.Atoi(field)
			check(err)
			print(b.requests(callers))
		}
	}
	if *only == "" || *only == "streams" {
		print(b.streams(true))
		print(b.streams(false))
	}
	if *only == "stalled" {
		stalled(256, 10*time.Second)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal("grid: ", err)
	}
}

func printRow(r row) {
	fmt.Printf("%-22s %12.0f %12.0f %8.2f   (%5.2f-%5.2f) %9.2f %9.2f %7.1f %7.1f  %s\n", r.Load, r.Grid.PerSecond, r.Other.PerSecond, r.Ratio,
		r.RatioMin, r.RatioMax, r.Grid.CPU, r.Other.CPU, r.Grid.Allocations, r.Other.Allocations, r.Unit)
}

type bench struct {
	rounds, size int
	time         time.Duration
	checksum     bool
	profile      string
}

func (b *bench) requests(callers int) row {
	grid, closeGrid := gridRequests(b.size, b.checksum)
	defer closeGrid()
	plain, closePlain := httpRequests(b.size, callers)
	defer closePlain()
	r := b.compare(grid, plain, callers, 1)
	r.Load, r.Unit = fmt.Sprintf("%d callers", callers), "requests/s, us, beside HTTP"
	return r
}

func (b *bench) streams(fromConnector bool) row {
	grid, closeGrid := gridStream(b.checksum, fromConnector)
	defer closeGrid()
	bare, closeBare := tcpStream()
	defer closeBare()
	r := b.compare(grid, bare, 1, 1<<20/pieceSize)
	r.Load, r.Unit = "stream to connector", "MiB/s, us, beside TCP"
	if fromConnector {
		r.Load = "stream to acceptor"
	}
	return r
}

// compare runs both in turn. A unit is so many calls.
func (b *bench) compare(grid, other rival, callers int, callsPerUnit float64) row {
	var grids, others []run
	b.once(grid, callers, callsPerUnit) // warms up
	b.once(other, callers, callsPerUnit)
	for range b.rounds {
		grids = append(grids, b.profiled(grid, callers, callsPerUnit))
		others = append(others, b.once(other, callers, callsPerUnit))
	}
	ratios := make([]float64, b.rounds)
	for i := range ratios {
		ratios[i] = grids[i].PerSecond / others[i].PerSecond
	}
	slices.Sort(ratios)
	return row{
		Grid: medians(grids), Other: medians(others), Ratio: ratios[len(ratios)/2], RatioMin: ratios[0], RatioMax: ratios[len(ratios)-1],
	}
}

func (b *bench) profiled(r rival, callers int, callsPerUnit float64) run {
	if b.profile == "" {
		return b.once(r, callers, callsPerUnit)
	}
	f, err := os.Create(b.profile)
	check(err)
	check(pprof.StartCPUProfile(f))
	defer f.Close()
	defer pprof.StopCPUProfile()
	return b.once(r, callers, callsPerUnit)
}

// once lets the callers call for the time of a round.
func (b *bench) once(r rival, callers int, callsPerUnit float64) run {
	runtime.GC()
	var count atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), b.time)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := processorTime(), time.Now()
	for range callers {
		all.Add(1)
		go func() {
			defer all.Done()
			call, end := r.newCaller()
			defer end()
			calls := int64(0)
			for ctx.Err() == nil {
				check(call())
				calls++
			}
			count.Add(calls)
		}()
	}
	all.Wait()
	took := time.Since(began).Seconds()
	cpu = processorTime() - cpu
	runtime.ReadMemStats(&after)
	units := float64(count.Load()) / callsPerUnit
	return run{units / took, cpu.Seconds() * 1e6 / units, float64(after.Mallocs-before.Mallocs) / units}
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func medians(runs []run) (m run) {
	for _, field := range []func(*run) *float64{
		func(r *run) *float64 { return &r.PerSecond }, func(r *run) *float64 { return &r.CPU }, func(r *run) *float64 { return &r.Allocations },
	} {
		values := make([]float64, len(runs))
		for i := range runs {
			values[i] = *field(&runs[i])
		}
		slices.Sort(values)
		*field(&m) = values[len(values)/2]
	}
	return m
}
