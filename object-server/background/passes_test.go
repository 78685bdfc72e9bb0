package background

import (
	"context"
	"testing"
	"time"
)

func add(total, report *int) { *total += *report }

// A pass that hangs delays no other one, and is reported when it has ended.
func TestPassesThatHang(t *testing.T) {
	p := NewPasses[string](add)
	hang := make(chan struct{})
	runs := 0
	for range 2 { // the second one is not begun, since the first goes on
		p.Begin("slow", func(report *int) {
			runs++
			<-hang
			*report = 100
		})
	}
	p.Begin("fast", func(report *int) { *report = 1 })
	total, running := 0, 2
	for running > 1 {
		var report int
		report, running = p.Await(context.Background(), time.Millisecond)
		total += report
	}
	if p.Add(new(int)); total != 1 || running != 1 {
		t.Errorf("%d, %d run", total, running)
	}
	close(hang)
	if report, running := p.Await(context.Background(), 0); report != 100 || running != 0 || runs != 1 {
		t.Errorf("%d, %d run, %d runs", report, running, runs)
	}
	if report, _ := p.Await(context.Background(), 0); report != 0 {
		t.Errorf("%d is reported twice", report)
	}
}

// A rate lets through what it allows, whatever comes at once, and a context ends the wait.
func TestRate(t *testing.T) {
	r := NewRate(0)
	if err := r.Wait(context.Background(), 1<<40); err != nil {
		t.Error(err)
	}
	r.Set(100)
	began := time.Now()
	if err := r.Wait(context.Background(), 120); err != nil { // 100 may pass at once
		t.Error(err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("120 of 100 a second took %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := r.Wait(ctx, 1<<20); err == nil {
		t.Error("it did not wait")
	}
}
