package lifecycle

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// documentMax is the most bytes of a setting of a bucket.
const documentMax = 256 << 10

// setting reads a setting from the headers of a container, which have names in lower case; nil if there is none.
// doc/formats/s3-settings.md has the form.
func setting(headers map[string]string, name string) ([]byte, error) {
	key := "x-container-sysmeta-s3api-setting-" + strings.ToLower(name)
	first := headers[key]
	if first == "" {
		return nil, nil
	}
	document, err := unpack(headers, key, first)
	if err != nil {
		return nil, fmt.Errorf("lifecycle: the setting %s is damaged: %w", name, err)
	}
	return document, nil
}

func unpack(headers map[string]string, key, first string) ([]byte, error) {
	digits, text, _ := strings.Cut(first, ":")
	count, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	for i := 1; i < count; i++ {
		piece, ok := headers[key+"-"+strconv.Itoa(i)]
		if !ok {
			return nil, errors.New("a piece is missing")
		}
		text += piece
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	document, err := io.ReadAll(io.LimitReader(z, documentMax+1))
	if err == nil && len(document) > documentMax {
		err = errors.New("it is too large")
	}
	return document, err
}
