package server

import (
	"net/http"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/message"
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
	if after := x.header(message.DeleteAfter); after != "" {
		seconds, err := strconv.ParseInt(after, 10, 64)
		if err != nil {
			return fail(http.StatusBadRequest, "Non-integer X-Delete-After")
		}
		if seconds <= 0 {
			return fail(http.StatusBadRequest, "X-Delete-After in past")
		}
		at := unixSeconds(timestamp) + min(seconds, deleteAtMax)
		x.in.Set(message.DeleteAt, strconv.FormatInt(min(at, deleteAtMax), 10))
		x.in.Unset(message.DeleteAfter)
	}
	if !x.in.Has(message.DeleteAt) {
		return nil
	}
	value := x.header(message.DeleteAt)
	if x.in.Method == http.MethodPost && (value == "" || value == "0") {
		return nil // removes the stored time
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return fail(http.StatusBadRequest, "Non-integer X-Delete-At")
	}
	if seconds <= unixSeconds(timestamp) && !x.flag(message.Replication) {
		return fail(http.StatusBadRequest, "X-Delete-At in past")
	}
	return nil
}
