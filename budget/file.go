package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A file keeps what was spent, one line for each cost. Each line is appended by a single write, so that
// several processes need no lock, and a process that is killed leaves at most one line that is not
// complete. Such a line is skipped: it cost less than a request.
type file struct {
	*os.File
	read int64 // bytes that are counted
}

func openFile(name string) (*file, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{File: f}, nil
}

const maxLine = 256

// line is a cost in the file.
type line struct {
	Money  int64 `json:"nanodollars,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
	Work   int64 `json:"work_ns,omitempty"`
}

// sync appends what was spent to the file, and counts what all processes have spent. It keeps what it
// cannot write. The mutex is held.
func (p *Pot) sync() error {
	if p.file == nil {
		return nil
	}
	if p.spent != (amounts{}) {
		if err := p.file.append(p.spent); err != nil {
			return fmt.Errorf("budget %s: keep what was spent: %w", p.conf.Name, err)
		}
		p.spent = amounts{}
	}
	if err := p.file.sum(&p.filed); err != nil {
		return fmt.Errorf("budget %s: read what was spent: %w", p.conf.Name, err)
	}
	return nil
}

// append writes a line. It begins with a line break, since the line before it may not be complete.
func (f *file) append(a amounts) error {
	data, err := json.Marshal(line{a[money], a[tokenCount], a[work]})
	if err != nil {
		return err
	}
	_, err = f.Write(append(append([]byte{'\n'}, data...), '\n'))
	return err
}

// sum adds the lines that are not counted yet.
func (f *file) sum(to *amounts) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.ReadAt(buf, f.read)
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		if whole == 0 && n == len(buf) {
			whole = n // no line of a budget is so long
		}
		for l := range bytes.Lines(buf[:whole]) {
			to.addLine(l)
		}
		f.read += int64(whole)
		if err != nil && err != io.EOF {
			return err
		}
		if whole == 0 || err == io.EOF {
			return nil
		}
	}
}

// addLine adds a line of the file. It skips what is not a cost.
func (a *amounts) addLine(data []byte) {
	var l line
	if len(data) > maxLine || json.Unmarshal(data, &l) != nil || min(l.Money, l.Tokens, l.Work) < 0 {
		return
	}
	a.add(amounts{l.Money, l.Tokens, l.Work})
}
