package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Sections of the configuration file that hold options.
const (
	defaultSection = "DEFAULT"
	appSection     = "app:object-server"
	updaterSection = "object-updater"
)

// option is one line of the configuration file; etc/object-server.conf-sample says what each does.
type option struct {
	section string
	name    string
	value   string // default
	set     func(value string) error
}

// options lists every option. [DEFAULT] stands for those that [app:object-server] may set too.
func (c *Config) options() []option {
	return []option{
		{defaultSection, "bind_ip", "0.0.0.0", text(&c.BindIP)},
		{defaultSection, "bind_port", "6200", integer(&c.BindPort, 0, 65535)},
		{defaultSection, "devices", "/srv/node", text(&c.Devices)},
		{defaultSection, "mount_check", "true", boolean(&c.MountCheck)},
		{defaultSection, "swift_dir", "/etc/swift", text(&c.SwiftDir)},
		{defaultSection, "log_level", "INFO", logLevel(&c.LogLevel)},
		{defaultSection, "client_timeout", "60.0", seconds(&c.ClientTimeout)},
		{defaultSection, "keepalive_timeout", "600.0", seconds(&c.KeepaliveTimeout)},
		{defaultSection, "shutdown_timeout", "30.0", seconds(&c.ShutdownTimeout)},
		{defaultSection, "conn_timeout", "0.5", seconds(&c.ConnTimeout)},
		{defaultSection, "node_timeout", "3.0", seconds(&c.NodeTimeout)},
		{defaultSection, "container_update_timeout", "1.0", seconds(&c.ContainerUpdateTimeout)},
		{appSection, "log_requests", "true", boolean(&c.LogRequests)},
		{appSection, "max_upload_time", "86400", seconds(&c.MaxUploadTime)},
		{appSection, "allowed_headers", "Content-Disposition, Content-Encoding, X-Delete-At, X-Object-Manifest, " +
			"X-Static-Large-Object, Cache-Control, Content-Language, Expires, X-Robots-Tag", list(&c.AllowedHeaders)},
		{updaterSection, "interval", "300", seconds(&c.UpdaterInterval)},
	}
}

// PrintOptions writes one line for each option: its section, name and default.
func PrintOptions(w io.Writer) error {
	for _, o := range new(Config).options() {
		if _, err := fmt.Fprintf(w, "[%s] %s = %s\n", o.section, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

func text(into *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("must not be empty")
		}
		*into = value
		return nil
	}
}

func integer(into *int, least, most int64) func(string) error {
	return func(value string) error {
		number, err := parseInteger(value, least, most)
		if err == nil {
			*into = int(number)
		}
		return err
	}
}

func parseInteger(value string, least, most int64) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || number < least || number > most {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	return number, nil
}

func boolean(into *bool) func(string) error {
	return func(value string) error {
		switch {
		case isTrue(value):
			*into = true
		case strings.EqualFold(value, "false"), strings.EqualFold(value, "no"), strings.EqualFold(value, "off"),
			strings.EqualFold(value, "f"), strings.EqualFold(value, "n"), value == "0":
			*into = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}
}

// secondsMax keeps a time in seconds within what a Duration holds.
const secondsMax = 1e9

func seconds(into *time.Duration) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number > 0) || number > secondsMax {
			return errors.New("must be a number of seconds greater than 0")
		}
		*into = time.Duration(number * float64(time.Second))
		return nil
	}
}

func list(into *[]string) func(string) error {
	return func(value string) error {
		*into = nil
		for _, item := range strings.Split(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*into = append(*into, item)
			}
		}
		return nil
	}
}

func logLevel(into *slog.Level) func(string) error {
	return func(value string) error {
		switch strings.ToUpper(value) {
		case "DEBUG":
			*into = slog.LevelDebug
		case "INFO", "NOTICE":
			*into = slog.LevelInfo
		case "WARN", "WARNING":
			*into = slog.LevelWarn
		case "ERROR", "CRITICAL":
			*into = slog.LevelError
		default:
			return errors.New("must be DEBUG, INFO, WARNING or ERROR")
		}
		return nil
	}
}
