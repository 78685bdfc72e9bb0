package message

// Pair is a header of an answer.
type Pair struct {
	Name  string // canonical
	Value string
}

// Answer is what comes before the body of an answer.
type Answer struct {
	Headers []Pair
	Length  int64 // of the body, or for a HEAD that of a GET; -1: none is told
}

// Reset removes everything.
func (a *Answer) Reset() {
	clear(a.Headers)
	a.Headers, a.Length = a.Headers[:0], -1
}

// Set adds a header, or replaces that of the same name.
func (a *Answer) Set(name, value string) { a.Headers = Set(a.Headers, name, value) }

// Set adds a header to a list, or replaces that of the same name.
func Set(list []Pair, name, value string) []Pair {
	for i := range list {
		if list[i].Name == name {
			list[i].Value = value
			return list
		}
	}
	return append(list, Pair{name, value})
}
