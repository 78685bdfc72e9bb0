package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkFooters stores bodies of 16 MiB: alone, with metadata after them, and with metadata after
// them where the size is announced. The CPU is that of the process, so of the client as well.
func BenchmarkFooters(b *testing.B) {
	const size = 16 << 20
	body := strings.Repeat("0123456789abcdef", size/16)
	footers := footerDocument(body, "{}")
	announced := []string{"X-Backend-Obj-Multipart-Mime-Boundary", "bound", "X-Backend-Obj-Metadata-Footer", "yes"}
	for _, c := range []struct {
		name, document string
		headers        []string
	}{
		{"none", body, nil},
		{"after", footers, announced},
		{"size announced", footers, append(announced, "X-Backend-Obj-Content-Length", fmt.Sprint(size))},
	} {
		b.Run(c.name, func(b *testing.B) {
			address := benchServer(b)
			b.SetBytes(size)
			before := cpuOfProcess(b)
			for n := range b.N {
				headers := append(benchHeaders(http.MethodPut, int64(n)), c.headers...)
				request, err := http.NewRequest(http.MethodPut, fmt.Sprintf("http://%s/sda/7/a/c/o%d", address, n%4), io.MultiReader(strings.NewReader(c.document)))
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; i < len(headers); i += 2 {
					request.Header.Set(headers[i], headers[i+1])
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					b.Fatal(err)
				}
				if response.Body.Close(); response.StatusCode != http.StatusCreated {
					b.Fatal(response.Status)
				}
			}
			b.ReportMetric(float64((cpuOfProcess(b)-before).Microseconds())/float64(b.N)/(size>>20), "cpu-µs/MiB")
		})
	}
}

func cpuOfProcess(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
