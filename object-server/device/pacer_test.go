package device

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// paced is how many bytes a pacer lets through in a while, in pieces of 1 MiB,
// when clients write so many bytes a second.
func paced(p *pacer, written *atomic.Uint64, clients float64, while time.Duration) (bytes int) {
	const piece = 1 << 20
	now := time.Unix(1000, 0)
	for end := now.Add(while); now.Before(end); {
		pause := p.take(piece, now)
		if pause == 0 {
			bytes += piece
			continue
		}
		now = now.Add(pause)
		written.Add(uint64(pause.Seconds() * clients))
	}
	return bytes
}

// The compactor copies at its rate, and beside that as much as clients write.
func TestPacer(t *testing.T) {
	const rate, while = 16 << 20, 100 * time.Second
	for _, clients := range []float64{0, 10 << 20, 200 << 20} {
		var written atomic.Uint64
		p := pacer{rate: rate, written: &written}
		got, want := float64(paced(&p, &written, clients, while)), (rate+clients)*while.Seconds()
		if got < 0.95*want || got > 1.05*want+pacerBurst {
			t.Errorf("%.0f bytes beside %.0f a second, want %.0f", got, clients, want)
		}
	}
}

// A piece larger than all that may come together is let through once that is
// there, and paid for afterwards.
func TestPacerTakesLargePieces(t *testing.T) {
	var written atomic.Uint64
	p := pacer{rate: 1 << 20, written: &written}
	now := time.Unix(1000, 0)
	if pause := p.take(2*pacerBurst, now); pause != 0 {
		t.Fatal(pause)
	}
	for i := range 60 { // 32 MiB of debt, 1 MiB for the next
		now = now.Add(time.Second)
		if pause := p.take(1<<20, now); (pause == 0) != (i >= 32) {
			t.Fatalf("second %d: %v", i, pause)
		}
	}
}

// Where room is short, or the rate is 0, nothing waits; a device that closes ends
// the wait.
func TestPacerDoesNotWait(t *testing.T) {
	var written atomic.Uint64
	stopping := make(chan struct{})
	for _, p := range []*pacer{{written: &written}, {rate: 1, isUnlimited: true, written: &written}} {
		for range 10 {
			if pause := p.take(pacerBurst, time.Unix(1000, 0)); pause != 0 {
				t.Fatal(pause)
			}
		}
	}
	p := pacer{rate: 1, written: &written, stopping: stopping}
	if err := p.wait(pacerBurst); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Millisecond, func() { close(stopping) })
	if err := p.wait(pacerBurst); !errors.Is(err, errStopping) {
		t.Fatal(err)
	}
}
