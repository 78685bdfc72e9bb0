package grid

import (
	"context"
	"strconv"
	"testing"

	"martlet/object-server/grid/frame"
)

func BenchmarkRequests(b *testing.B) {
	for _, callers := range []int{1, 16, 128, 1024} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			acceptor := newNode(b, Config{Options: frame.Options{Checksum: true}})
			connector := newNode(b, Config{})
			payload := make([]byte, 512)
			peer := connector.Peer(acceptor.address)
			if _, err := peer.Conn(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			b.ResetTimer()
			if callers == 1 {
				answer := make([]byte, 0, 1024)
				for range b.N {
					if _, err := peer.Do(context.Background(), Request{Name: "echo", Payload: payload}, answer[:0]); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				answer := make([]byte, 0, 1024)
				for pb.Next() {
					if _, err := peer.Do(context.Background(), Request{Name: "echo", Payload: payload}, answer[:0]); err != nil {
						panic(err)
					}
				}
			})
			b.StopTimer()
			s := connector.Stats()
			b.ReportMetric(float64(s.FramesOut)/float64(s.MessagesOut), "frames/message")
		})
	}
}
