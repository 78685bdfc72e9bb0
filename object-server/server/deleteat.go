package server

import (
	"net/http"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
)

// deleteAtMax is the latest X-Delete-At; ten digits keep the expirer's queue sorted.
const deleteAtMax = 9999999999

// deleteAt parses a checked X-Delete-At; 0 means never.
func deleteAt(value string) int64 {
	seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return 0
	}
	return min(max(seconds, 0), deleteAtMax)
}

// checkDeleteAt verifies X-Delete-At and turns X-Delete-After into it. Replication may write an object that has expired.
func checkDeleteAt(x *exchange, timestamp format.Timestamp) error {
	if after := x.header("X-Delete-After"); after != "" {
		seconds, err := strconv.ParseInt(after, 10, 64)
		if err != nil {
			return fail(http.StatusBadRequest, "Non-integer X-Delete-After")
		}
		if seconds <= 0 {
			return fail(http.StatusBadRequest, "X-Delete-After in past")
		}
		at := unixSeconds(timestamp) + min(seconds, deleteAtMax)
		x.r.Header[deleteAtHeader] = []string{strconv.FormatInt(min(at, deleteAtMax), 10)}
		delete(x.r.Header, "X-Delete-After")
	}
	values, ok := x.r.Header[deleteAtHeader]
	if !ok {
		return nil
	}
	if x.r.Method == http.MethodPost && (values[0] == "" || values[0] == "0") {
		return nil // removes the stored time
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
	if err != nil {
		return fail(http.StatusBadRequest, "Non-integer X-Delete-At")
	}
	if seconds <= unixSeconds(timestamp) && !x.flag(isReplicationHeader) {
		return fail(http.StatusBadRequest, "X-Delete-At in past")
	}
	return nil
}
