package vfs

// Paced is a file system that tells of each read of a file after it was made, so that it can
// be counted or delayed.
type Paced struct {
	FS
	Read func(bytes int) // safe for concurrent use
}

// Open implements FS.
func (p *Paced) Open(name string) (File, error) {
	file, err := p.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &pacedFile{file, p}, nil
}

// Link implements FS.
func (p *Paced) Link(file File, name string) error {
	if paced, ok := file.(*pacedFile); ok {
		file = paced.File
	}
	return p.FS.Link(file, name)
}

// Prefetch reads the start of a file before it is opened, where that is possible.
func (p *Paced) Prefetch(name string) {
	if files, ok := p.FS.(interface{ Prefetch(string) }); ok {
		files.Prefetch(name)
	}
}

type pacedFile struct {
	File
	paced *Paced
}

// ReadAt implements File.
func (f *pacedFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	f.paced.Read(n)
	return n, err
}

// ReadDirect implements File.
func (f *pacedFile) ReadDirect(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadDirect(p, offset)
	f.paced.Read(n)
	return n, err
}
