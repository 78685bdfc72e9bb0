package rarely

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"martlet/object-server/proof"
)

func TestOneLineOfAKindAtATime(t *testing.T) {
	out := &proof.Log{}
	logger := slog.New(slog.NewTextHandler(out, nil))
	var log Log
	start := time.Unix(1700000000, 0)
	for _, c := range []struct {
		after time.Duration
		kind  string
	}{{0, "a"}, {1, "a"}, {1, "b"}, {QuietTime - 1, "a"}, {QuietTime, "a"}, {2 * QuietTime, "a"}, {2 * QuietTime, "b"}} {
		log.Warn(logger, start.Add(c.after), c.kind, c.kind, "after", c.after)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "level=WARN ")
		got = append(got, line)
	}
	want := []string{"msg=a after=0s", "msg=b after=1ns", "msg=a after=1s left_out=2", "msg=a after=2s", "msg=b after=2s"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged: %q", got)
	}
}
