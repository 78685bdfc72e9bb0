// Package failpoint ends the process at named places of the engine, so that a
// test can look at what is left there. It does nothing unless the environment
// says so when the process starts:
//
//	MARTLET_FAILPOINTS=name=kill      SIGKILL when the point is first reached
//	MARTLET_FAILPOINTS=name=kill@3    SIGKILL when it is reached for the third time
//
// Several points are separated by commas.
package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Environment is the variable that switches points on.
const Environment = "MARTLET_FAILPOINTS"

// Point is a place where the process may be ended.
type Point string

// The points of the engine. Each is reached by device/failpoint_test.go.
const (
	SegmentCreated Point = "segment-created" // a new segment has a name, and no header yet
	Appended       Point = "appended"        // a batch is written, not flushed
	Flushed        Point = "flushed"         // a batch is durable, not in the index
	Published      Point = "published"       // a batch is in the index, not acknowledged
	LargeLinked    Point = "large-linked"    // a large file has its name, and no record
	Padding        Point = "padding"         // a clean stop is about to prove the last batches

	Sealed          Point = "sealed"           // a segment has its footer
	Checkpointed    Point = "checkpointed"     // a CHECKPOINT is in the log
	CompactWritten  Point = "compact-written"  // a compacted segment is durable, without a name
	CompactLinked   Point = "compact-linked"   // it has its name, beside those it replaces
	Compacted       Point = "compacted"        // the index points at it
	CompactUnlinked Point = "compact-unlinked" // those that it replaces are gone

	SplitLinked    Point = "split-linked"    // both halves of a partition have links to its files
	SplitPublished Point = "split-published" // they count, and the partition does not
	SplitCleaned   Point = "split-cleaned"   // its files are gone
)

// All lists the points, for the test that reaches each of them.
var All = []Point{
	SegmentCreated, Appended, Flushed, Published, LargeLinked, Padding,
	Sealed, Checkpointed, CompactWritten, CompactLinked, Compacted, CompactUnlinked,
	SplitLinked, SplitPublished, SplitCleaned,
}

// set holds how often a point may still be passed, plus one; nil where nothing
// was asked for.
var set = parse(os.Getenv(Environment))

// Hit ends the process if that was asked for here. Otherwise it is one
// comparison.
func Hit(p Point) {
	if set == nil {
		return
	}
	if left := set[p]; left != nil && left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing happens behind the point
	}
}

// parse reads the variable. What it does not understand ends the process: a
// test must not pass because a name was misspelt.
func parse(text string) map[Point]*atomic.Int64 {
	if text == "" {
		return nil
	}
	points := make(map[Point]*atomic.Int64)
	for entry := range strings.SplitSeq(text, ",") {
		name, action, _ := strings.Cut(entry, "=")
		verb, count, isCounted := strings.Cut(action, "@")
		n, err := int64(1), error(nil)
		if isCounted {
			n, err = strconv.ParseInt(count, 10, 64)
		}
		if verb != "kill" || err != nil || n < 1 || !slices.Contains(All, Point(name)) {
			fmt.Fprintf(os.Stderr, "%s: cannot understand %q\n", Environment, entry)
			os.Exit(2)
		}
		points[Point(name)] = new(atomic.Int64)
		points[Point(name)].Store(n)
	}
	return points
}
