package option

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/ini.v1"
)

// DefaultSection is the section whose options [app:...] may set, too.
const DefaultSection = "DEFAULT"

// Option is one line of a configuration file.
type Option struct {
	Section string
	Name    string
	Default string
	set     func(value string) error
}

// New returns an option that is stored by set.
func New(section, name, value string, set func(value string) error) Option {
	return Option{Section: section, Name: name, Default: value, set: set}
}

// SetDefaults gives all options their defaults.
func SetDefaults(all []Option) error {
	for _, o := range all {
		if err := o.set(o.Default); err != nil {
			return fmt.Errorf("default of %s: %w", o.Name, err)
		}
	}
	return nil
}

// Load reads an ini file. Its error is one line.
func Load(path string) (*ini.File, error) {
	options := ini.LoadOptions{
		IgnoreInlineComment: true, SpaceBeforeInlineComment: true, AllowPythonMultilineValues: true,
	}
	file, err := ini.LoadSources(options, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	return file, nil
}

// Name is the name of the option that a line sets: "set name" is the same as "name".
func Name(key *ini.Key) string {
	return strings.TrimSpace(strings.TrimPrefix(key.Name(), "set "))
}

// ErrUnknown means that a line sets no known option.
var ErrUnknown = errors.New("unknown option")

// Set applies one line of a section. As in PasteDeploy, [DEFAULT] sets an option of any section unless the section
// sets it ([DEFAULT] comes first), and "use" in [app:...] or [filter:...] names a program and is ignored.
func Set(all []Option, section string, key *ini.Key) error {
	name := Name(key)
	isApp := strings.HasPrefix(section, "app:")
	if name == "use" && (isApp || strings.HasPrefix(section, "filter:")) {
		return nil
	}
	for _, o := range all {
		isHere := o.Section == section || section == DefaultSection || (o.Section == DefaultSection && isApp)
		if o.Name != name || !isHere {
			continue
		}
		if err := o.set(strings.TrimSpace(key.Value())); err != nil {
			return fmt.Errorf("[%s] %s = %s: %w", section, name, key.Value(), err)
		}
		return nil
	}
	return fmt.Errorf("[%s] has an %w %q", section, ErrUnknown, name)
}
