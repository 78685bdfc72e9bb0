package server

import (
	"net/http"
	"strings"

	"martlet/object-server/server/conf"
	"martlet/object-server/server/message"
)

// reserved begins the names that middlewares keep for themselves, such as those of old versions.
const reserved = "\x00"

// checkReservedNames refuses a NUL, except at the start of both the container's and the object's name.
func checkReservedNames(account, container, object string) error {
	for _, name := range []string{account, container, object} {
		if strings.Contains(name, reserved) && !strings.HasPrefix(name, reserved) {
			return fail(http.StatusBadRequest, "Names must not contain NUL.")
		}
	}
	if strings.HasPrefix(account, ".") {
		return nil
	}
	if strings.HasPrefix(container, reserved) != strings.HasPrefix(object, reserved) {
		return fail(http.StatusBadRequest, "Reserved names of containers and objects must come together.")
	}
	return nil
}

// checkNames enforces the maximum lengths of a new name.
func checkNames(x *exchange, l *conf.Limits) error {
	if len(x.in.Object) > l.ObjectNameMax {
		return fail(http.StatusBadRequest, "Object name length of %d longer than %d", len(x.in.Object), l.ObjectNameMax)
	}
	if len(x.in.Account) > l.AccountNameMax && !strings.HasPrefix(x.in.Account, reserved) {
		return fail(http.StatusBadRequest, "Account name length of %d longer than %d", len(x.in.Account), l.AccountNameMax)
	}
	if len(x.in.Container) > l.ContainerNameMax && !strings.HasPrefix(x.in.Container, reserved) {
		return fail(http.StatusBadRequest, "Container name length of %d longer than %d", len(x.in.Container),
			l.ContainerNameMax)
	}
	return nil
}

// checkHeaders enforces the limits on user metadata and header values. Values are bytes, UTF-8 or not.
func checkHeaders(in *message.Request, l *conf.Limits) error {
	if name := in.TooLong(l.HeaderValueMax); name != "" {
		return fail(http.StatusBadRequest, "Header value too long: %.64s", name)
	}
	return checkMetadata(in.Others, l)
}

// checkMetadata is checkHeaders for those that are no fields.
func checkMetadata(headers []message.Header, l *conf.Limits) error {
	count, size := 0, 0
	for i := range headers {
		name, value := headers[i].Name, headers[i].Value
		if len(value) > l.HeaderValueMax {
			return fail(http.StatusBadRequest, "Header value too long: %.64s", name)
		}
		key, isMeta := strings.CutPrefix(name, metaPrefix)
		if !isMeta {
			continue
		}
		count++
		size += len(key) + len(value)
		switch {
		case key == "":
			return fail(http.StatusBadRequest, "Metadata name cannot be empty")
		case len(key) > l.MetaNameMax:
			return fail(http.StatusBadRequest, "Metadata name too long: %.64s", name)
		case len(value) > l.MetaValueMax:
			return fail(http.StatusBadRequest, "Metadata value longer than %d: %.64s", l.MetaValueMax, name)
		case count > l.MetaCountMax:
			return fail(http.StatusBadRequest, "Too many metadata items; max %d", l.MetaCountMax)
		case size > l.MetaOverallMax:
			return fail(http.StatusBadRequest, "Total metadata too large; max %d", l.MetaOverallMax)
		}
	}
	return nil
}
