// Command engine measures the storage engine by itself, without HTTP.
// doc/benchmarks.md says what each figure is and how it is obtained;
// bench/engine.py makes the file systems and prints one table of all.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"text/tabwriter"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// settings are the flags; each benchmark has its own defaults for the sizes.
type settings struct {
	dir        string
	objects    int
	size       int
	partitions int
	writers    int
	rounds     int
	segment    int64
	sync       string
	disk       bool
	delay      time.Duration
	json       bool
	profile    string
}

// benchmark is one subcommand. It works below s.dir, which is empty and is
// removed afterwards.
type benchmark struct {
	name    string
	summary string
	objects int           // default
	size    int           // default
	delay   time.Duration // default
	run     func(s *settings, r *report) error
}

// serverDelay is the default of bundle_commit_delay in object-server.conf.
const serverDelay = 3 * time.Millisecond

var benchmarks = []benchmark{
	{"ram", "memory for each object", 100_000, 128, 0, ram},
	{"inodes", "files and directories", 100_000, 4096, 0, inodes},
	{"reads", "reads for each GET, of present and absent names, and PUT", 20_000, 4096, 0, reads},
	{"throughput", "PUT and GET beside bare loops and a file per object", 8192, 4096, serverDelay, throughput},
	{"scan", "reading all segments in order", 100_000, 4096, 0, scan},
	{"recovery", "from kill -9 to the first GET", 200_000, 128, 0, recovery},
	{"versions", "what the number of versions of a name changes", 100_000, 4096, 0, versionCosts},
	{"churn", "device use and stalls while objects are overwritten", 5000, 4096, serverDelay, churn},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == recoveryChild {
		fail(runRecoveryChild(os.Args[2]))
		return
	}
	if len(os.Args) > 1 {
		for _, b := range benchmarks {
			if b.name == os.Args[1] {
				fail(b.start(os.Args[2:]))
				return
			}
		}
	}
	fmt.Fprintf(os.Stderr, "usage: engine <benchmark> [flags]; -h after a benchmark lists its flags\n")
	for _, b := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", b.name, b.summary)
	}
	os.Exit(2)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

// start reads the flags, runs the benchmark in a new directory and prints.
func (b *benchmark) start(arguments []string) (err error) {
	var s settings
	flags := flag.NewFlagSet(b.name, flag.ExitOnError)
	flags.StringVar(&s.dir, "dir", os.TempDir(), "work below this directory")
	flags.IntVar(&s.objects, "objects", b.objects, "objects; operations of a round in throughput")
	flags.IntVar(&s.size, "size", b.size, "bytes of each object")
	flags.IntVar(&s.partitions, "partitions", 1024, "a power of two")
	flags.IntVar(&s.writers, "writers", 64, "goroutines")
	flags.IntVar(&s.rounds, "rounds", 5, "rounds of each contender in throughput")
	flags.Int64Var(&s.segment, "segment", 0, "bytes of a segment; 0 is the engine's default")
	flags.BoolVar(&s.disk, "disk", false, "bundle_index = disk")
	flags.StringVar(&s.sync, "sync", "", "bundle_sync_method; empty is the engine's default")
	flags.DurationVar(&s.delay, "delay", b.delay, "bundle_commit_delay; where only the result of writing counts it is 0")
	flags.BoolVar(&s.json, "json", false, "print JSON")
	flags.StringVar(&s.profile, "profile", "", "write a CPU profile to this file")
	_ = flags.Parse(arguments) // exits on an error
	if s.partitions <= 0 || s.partitions&(s.partitions-1) != 0 || s.writers <= 0 || s.objects <= 0 || s.rounds <= 0 || s.size < 0 {
		return errors.New("partitions must be a power of two, the other numbers positive")
	}
	if s.dir, err = os.MkdirTemp(s.dir, "martlet-engine-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.profile != "" {
		f, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r := report{Benchmark: b.name, Settings: fmt.Sprintf("%d objects of %d bytes, %d partitions, %d writers",
		s.objects, s.size, s.partitions, s.writers)}
	if err := b.run(&s, &r); err != nil {
		return err
	}
	return r.print(s.json)
}

// open opens the device in s.dir through a file system of the caller's choice.
func (s *settings) open(fs vfs.FS) (*device.Device, error) {
	return device.Open(fs, s.dir, device.Options{
		SyncMethod: device.SyncMethod(s.sync), CommitDelay: s.delay, SegmentBytes: s.segment,
		IndexOnDisk: s.disk,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// report is what a benchmark found.
type report struct {
	Benchmark string   `json:"benchmark"`
	Settings  string   `json:"settings"`
	Figures   []figure `json:"figures"`
	Notes     []string `json:"notes,omitempty"`
}

// figure is one measured number; ToReach is empty where it is for information.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	ToReach string  `json:"to_reach,omitempty"`
}

func (r *report) add(name string, value float64, unit, toReach string) {
	r.Figures = append(r.Figures, figure{name, value, unit, toReach})
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *report) print(asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Printf("%s: %s\n", r.Benchmark, r.Settings)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range r.Figures {
		fmt.Fprintf(w, "%s\t%.4g %s\t%s\n", f.Name, f.Value, f.Unit, f.ToReach)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Println("note:", n)
	}
	return nil
}
