package option

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Text stores any text but an empty one.
func Text(into *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("must not be empty")
		}
		*into = value
		return nil
	}
}

// Integer stores a whole number within bounds.
func Integer[T int | int64](into *T, least, most int64) func(string) error {
	return func(value string) error {
		number, err := ParseInteger(value, least, most)
		if err == nil {
			*into = T(number)
		}
		return err
	}
}

// ParseInteger reads a whole number within bounds.
func ParseInteger(value string, least, most int64) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || number < least || number > most {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	return number, nil
}

// Boolean stores yes or no, in the words that Swift takes.
func Boolean(into *bool) func(string) error {
	return func(value string) error {
		switch {
		case IsTrue(value):
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

// IsTrue reports whether value is one of the words that mean yes in Swift, in options and in headers.
func IsTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}

// secondsMax keeps a time in seconds within what a Duration holds.
const secondsMax = 1e9

// Seconds stores a time greater than 0.
func Seconds(into *time.Duration) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number > 0) || number > secondsMax {
			return errors.New("must be a number of seconds greater than 0")
		}
		*into = time.Duration(number * float64(time.Second))
		return nil
	}
}

// Delay stores a pause of 0 to 1 second; a longer one would be noticed by clients.
func Delay(into *time.Duration) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number >= 0 && number <= 1) {
			return errors.New("must be a number of seconds from 0 to 1")
		}
		*into = time.Duration(number * float64(time.Second))
		return nil
	}
}

// List stores items that are separated by commas.
func List(into *[]string) func(string) error {
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

// LogStyle stores whether the log is JSON.
func LogStyle(isJSON *bool) func(string) error {
	return func(value string) error {
		if value != "text" && value != "json" {
			return errors.New("must be text or json")
		}
		*isJSON = value == "json"
		return nil
	}
}

// LogLevel stores a log level by the name that Python has for it.
func LogLevel(into *slog.Level) func(string) error {
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
