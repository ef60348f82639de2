package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const mib = 1 << 20

// count reads a whole number in the text of a tool, such as "24576", "24576 MiB" or 16368.0. Others, such as "[N/A]", are false.
func count(s string) (int64, bool) {
	s, _, _ = strings.Cut(strings.TrimSpace(s), " ")
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 1<<42) { // bytes or MiB of no machine
		return 0, false
	}
	return int64(v), true
}

// busy reads a percentage.
func busy(s string) int {
	if n, ok := count(s); ok && n <= 100 {
		return int(n)
	}
	return -1
}

// nvidiaGPUs asks nvidia-smi.
func nvidiaGPUs(ctx context.Context, m machine) ([]GPU, error) {
	out, err := m.ask(ctx, "nvidia-smi", "--query-gpu=index,memory.total,memory.free,utilization.gpu,name", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	list, err := parseNvidia(out)
	if slices.ContainsFunc(list, func(g GPU) bool { return g.Busy < 0 && g.Total > 0 }) {
		parts, _ := m.ask(ctx, "nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader") // drivers before 450 have no such field
		err = errors.Join(err, divided(list, parts))
	}
	return list, err
}

// divided takes the memory from GPUs that are divided into instances (MIG), of which a program can use only one, and says so.
func divided(list []GPU, parts []byte) (err error) {
	for i, line := range slices.Collect(strings.Lines(string(parts))) {
		if _, mode, _ := strings.Cut(strings.TrimSpace(line), ", "); mode == "Enabled" && i < len(list) {
			list[i].Total, list[i].Free = 0, 0
			err = errors.Join(err, fmt.Errorf("%s is divided into instances (MIG), whose memory is not known", list[i].Name))
		}
	}
	return err
}

// ask runs a tool. An error says which one.
func (m machine) ask(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := m.run(ctx, name, args...)
	if err != nil {
		return nil, toolError(name, out, err)
	}
	return out, nil
}

func toolError(name string, out []byte, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return err
	}
	if line := firstLine(out); line != "" {
		return fmt.Errorf("%s: %w: %s", name, err, line)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// parseNvidia reads lines such as "0, 24576, 24111, 3, NVIDIA GeForce RTX 3090". GPUs that share the memory of the host have
// "[N/A]", or "[Not Supported]" of older drivers. Others, such as "[Insufficient Permissions]" and "[GPU is lost]", are errors.
func parseNvidia(out []byte) (list []GPU, err error) {
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(line), ", ", 5)
		if len(f) == 1 && f[0] == "" {
			continue
		}
		if _, ok := count(f[0]); !ok || len(f) < 5 {
			return list, fmt.Errorf("nvidia-smi: %s", firstLine([]byte(line)))
		}
		g := GPU{Vendor: "nvidia", Name: f[4], Busy: busy(f[3]), Source: "nvidia-smi"}
		total, known := count(f[1])
		free, ok := count(f[2])
		if g.Total, g.Free = total*mib, free*mib; !known || !ok {
			g.Total, g.Free, g.Unified = 0, 0, f[1] == "[N/A]" || f[1] == "[Not Supported]"
			if !g.Unified {
				err = errors.Join(err, fmt.Errorf("nvidia-smi: memory of %s: %s", g.Name, f[1]))
			}
		}
		list = append(list, g)
	}
	return list, err
}

// amdGPUs asks amd-smi, or rocm-smi, which came before it.
func amdGPUs(ctx context.Context, m machine) ([]GPU, error) {
	out, err := m.ask(ctx, "amd-smi", "metric", "--mem-usage", "--usage", "--json")
	if errors.Is(err, exec.ErrNotFound) {
		if out, err = m.ask(ctx, "rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showuse", "--json"); err != nil {
			return nil, err
		}
		return parseROCm(out)
	}
	if err != nil {
		return nil, err
	}
	names, _ := m.ask(ctx, "amd-smi", "static", "--asic", "--json") // without it, only the names are missing
	return parseAMD(out, names)
}

// An amount is a number with its unit, as amd-smi of ROCm 6 and 7 writes it. Where there is none, it is "N/A".
type amount struct {
	n     float64
	unit  string
	known bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *amount) UnmarshalJSON(data []byte) error {
	var v struct {
		Value json.RawMessage `json:"value"`
		Unit  string          `json:"unit"`
	}
	text := string(data)
	if json.Unmarshal(data, &v) == nil && len(v.Value) > 0 {
		text = string(v.Value)
	}
	n, err := strconv.ParseFloat(strings.Trim(text, `"`), 64)
	a.n, a.unit, a.known = n, v.Unit, err == nil && n >= 0
	return nil
}

func (a amount) bytes() int64 {
	size := map[string]float64{"B": 1, "KB": 1 << 10, "": mib, "MB": mib, "MiB": mib, "GB": 1 << 30, "GiB": 1 << 30}[a.unit]
	if !a.known || a.n*size > math.MaxInt64/4 {
		return 0
	}
	return int64(a.n * size)
}

type amdCard struct {
	GPU   int `json:"gpu"`
	Usage struct {
		Busy amount `json:"gfx_activity"`
	} `json:"usage"`
	Memory struct {
		Total amount `json:"total_vram"`
		Used  amount `json:"used_vram"`
	} `json:"mem_usage"`
	ASIC struct {
		Name string `json:"market_name"`
	} `json:"asic"`
}

// amdCards reads a list of cards, or an object with it in gpu_data, as ROCm 7 writes it.
// A card has "N/A" in the place of an object that it does not tell.
func amdCards(out []byte) ([]amdCard, error) {
	var list []amdCard
	err := json.Unmarshal(out, &list)
	if err != nil && list == nil {
		var o struct {
			List []amdCard `json:"gpu_data"`
		}
		if err = json.Unmarshal(out, &o); err == nil && o.List == nil {
			err = errors.New("no gpu_data")
		}
		list = o.List
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !(ok && list != nil) {
		return nil, fmt.Errorf("amd-smi: %w", err)
	}
	return list, nil
}

func parseAMD(metric, static []byte) ([]GPU, error) {
	cards, err := amdCards(metric)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	if list, err := amdCards(static); err == nil {
		for _, c := range list {
			names[c.GPU] = c.ASIC.Name
		}
	}
	var list []GPU
	for _, c := range cards {
		g := GPU{Vendor: "amd", Name: names[c.GPU], Busy: -1, Source: "amd-smi", Total: c.Memory.Total.bytes()}
		if g.Name == "" || g.Name == "N/A" {
			g.Name = fmt.Sprintf("AMD GPU %d", c.GPU)
		}
		if c.Memory.Used.known {
			g.Free = max(0, g.Total-c.Memory.Used.bytes())
		}
		if b := c.Usage.Busy; b.known && b.n <= 100 {
			g.Busy = int(b.n)
		}
		list = append(list, g)
	}
	return list, nil
}

// parseROCm reads what rocm-smi says: an object for each card. Its keys have changed their case over the versions, and warnings
// may come before it.
func parseROCm(out []byte) ([]GPU, error) {
	var cards map[string]map[string]any
	start := strings.IndexByte(string(out), '{')
	if start < 0 {
		return nil, fmt.Errorf("rocm-smi: %s", firstLine(out))
	}
	if err := json.Unmarshal(out[start:], &cards); err != nil {
		return nil, fmt.Errorf("rocm-smi: %w", err)
	}
	var list []GPU
	for _, card := range slices.SortedFunc(maps.Keys(cards), func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }) {
		fields := cards[card]
		if !strings.HasPrefix(card, "card") {
			continue
		}
		get := func(keys ...string) string {
			for _, want := range keys {
				for key, v := range fields {
					if s, ok := v.(string); ok && strings.EqualFold(key, want) && s != "" && s != "N/A" {
						return s
					}
				}
			}
			return ""
		}
		g := GPU{Vendor: "amd", Name: get("Card series", "Device Name", "Card model"), Busy: busy(get("GPU use (%)")), Source: "rocm-smi"}
		total, known := count(get("VRAM Total Memory (B)"))
		if used, ok := count(get("VRAM Total Used Memory (B)")); known && ok {
			g.Total, g.Free = total, max(0, total-used)
		}
		list = append(list, g)
	}
	return list, nil
}

// maxIntel limits how many GPUs are asked about, each by two more programs.
const maxIntel = 16

// intelGPUs asks xpu-smi, or intel_gpu_top, which knows GPUs of processors and nothing about memory.
func intelGPUs(ctx context.Context, m machine) ([]GPU, error) {
	out, err := m.run(ctx, "xpu-smi", "discovery", "-j")
	if errors.Is(err, exec.ErrNotFound) {
		out, err = m.run(ctx, "intel_gpu_top", "-J", "-s", "500", "-n", "2")
		if errors.Is(err, exec.ErrNotFound) || len(out) == 0 {
			return nil, toolError("intel_gpu_top", out, err)
		}
		return parseIntelTop(out)
	}
	if err != nil {
		return nil, toolError("xpu-smi", out, err)
	}
	var list []GPU
	ids, err := parseXPU(out)
	for _, id := range ids[:min(len(ids), maxIntel)] {
		about, err1 := m.run(ctx, "xpu-smi", "discovery", "-d", strconv.Itoa(id), "-j")
		stats, err2 := m.run(ctx, "xpu-smi", "stats", "-d", strconv.Itoa(id), "-j")
		if err1 != nil || err2 != nil {
			return list, toolError("xpu-smi", nil, errors.Join(err1, err2))
		}
		g, err := parseXPUDevice(about, stats)
		if err != nil {
			return list, err
		}
		list = append(list, g)
	}
	return list, err
}

// parseXPU reads the numbers of the GPUs in what xpu-smi discovery -j says.
func parseXPU(out []byte) (ids []int, err error) {
	var v struct {
		List []struct {
			ID   int    `json:"device_id"`
			Type string `json:"device_type"`
		} `json:"device_list"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return nil, fmt.Errorf("xpu-smi: %w", err)
	}
	if v.Error != "" {
		return nil, fmt.Errorf("xpu-smi: %s", firstLine([]byte(v.Error)))
	}
	for _, d := range v.List {
		if d.ID >= 0 && (d.Type == "" || d.Type == "GPU") {
			ids = append(ids, d.ID)
		}
	}
	return ids, nil
}

// parseXPUDevice reads what xpu-smi says about one GPU. Sizes are text in bytes, and what is used is a number of MiB.
func parseXPUDevice(about, stats []byte) (GPU, error) {
	var a struct {
		Name string `json:"device_name"`
		Size string `json:"memory_physical_size_byte"`
		Free string `json:"memory_free_size_byte"`
	}
	var s struct {
		Metrics []struct {
			Type  string  `json:"metrics_type"`
			Value float64 `json:"value"`
		} `json:"device_level"`
	}
	if err := errors.Join(json.Unmarshal(about, &a), json.Unmarshal(stats, &s)); err != nil {
		return GPU{}, fmt.Errorf("xpu-smi: %w", err)
	}
	g := GPU{Vendor: "intel", Name: a.Name, Busy: -1, Source: "xpu-smi"}
	g.Total, _ = count(a.Size)
	g.Free, _ = count(a.Free)
	for _, x := range s.Metrics {
		switch x.Type {
		case "XPUM_STATS_MEMORY_USED":
			if x.Value >= 0 && x.Value*mib <= float64(g.Total) {
				g.Free = g.Total - int64(x.Value*mib)
			}
		case "XPUM_STATS_GPU_UTILIZATION":
			g.Busy = busy(strconv.FormatFloat(x.Value, 'f', 0, 64))
		}
	}
	return g, nil
}

// parseIntelTop reads samples of intel_gpu_top -J: objects one after the other or, of newer versions, in an array that may not
// be closed. The last whole one counts.
func parseIntelTop(out []byte) ([]GPU, error) {
	text := strings.TrimLeft(string(out), " \t\n[,")
	g := GPU{Vendor: "intel", Name: "Intel graphics", Busy: -1, Unified: true, Source: "intel_gpu_top"}
	for text != "" {
		var s struct {
			Engines map[string]struct {
				Busy float64 `json:"busy"`
			} `json:"engines"`
		}
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&s) != nil {
			break
		}
		most := 0.0
		for _, e := range s.Engines {
			most = max(most, e.Busy)
		}
		if s.Engines != nil {
			g.Busy = busy(strconv.FormatFloat(most, 'f', 0, 64))
		}
		text = strings.TrimLeft(text[d.InputOffset():], " \t\n,]")
	}
	if g.Busy < 0 {
		return nil, fmt.Errorf("intel_gpu_top: %s", firstLine(out))
	}
	return []GPU{g}, nil
}

// appleGPUs asks system_profiler which GPUs there are, and ioreg what they use.
func appleGPUs(ctx context.Context, m machine) ([]GPU, error) {
	out, err := m.ask(ctx, "system_profiler", "SPDisplaysDataType", "-json")
	if err != nil {
		return nil, err
	}
	size, err := m.ask(ctx, "sysctl", "-n", "hw.memsize")
	if err != nil {
		return nil, err
	}
	total, _ := count(string(size))
	reg, _ := m.ask(ctx, "ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator") // without it, what is used is not known
	limit, _ := m.ask(ctx, "sysctl", "-n", "iogpu.wired_limit_mb")                   // older systems have none
	wired, _ := count(string(limit))
	return parseApple(out, reg, total, wired*mib)
}

var (
	ioregUsed = regexp.MustCompile(`"In use system memory"\s*=\s*(\d+)`)
	ioregBusy = regexp.MustCompile(`"Device Utilization %"\s*=\s*(\d+)`)
)

// parseApple reads what the tools of macOS say. A GPU of Apple may use two thirds of the memory of the machine, and three quarters
// if that is more than 36 GiB, unless the user has set another limit (recommendedMaxWorkingSetSize of Metal).
func parseApple(profiler, ioreg []byte, total, limit int64) ([]GPU, error) {
	var v struct {
		List []struct {
			NameKey  string `json:"_name"`
			ModelKey string `json:"sppci_model"`
			Vendor   string `json:"spdisplays_vendor"`
			VRAM     string `json:"spdisplays_vram"`
		} `json:"SPDisplaysDataType"`
	}
	if err := json.Unmarshal(profiler, &v); err != nil {
		return nil, fmt.Errorf("system_profiler: %w", err)
	}
	var list []GPU
	for _, d := range v.List {
		g := GPU{Vendor: "intel", Name: d.ModelKey, Busy: -1, Source: "system_profiler"}
		if g.Name == "" {
			g.Name = d.NameKey
		}
		vendorName := strings.ToLower(d.Vendor + " " + g.Name)
		switch {
		case strings.Contains(vendorName, "apple"):
			g.Vendor, g.Unified = "apple", true
			if g.Total = limit; limit <= 0 || limit > total {
				if g.Total = total / 3 * 2; total > 36<<30 {
					g.Total = total / 4 * 3
				}
			}
			g.Free = g.Total
			if used := ioregUsed.FindSubmatch(ioreg); used != nil {
				n, _ := count(string(used[1]))
				g.Free = max(0, g.Total-n)
			}
			if b := ioregBusy.FindSubmatch(ioreg); b != nil {
				g.Busy = busy(string(b[1]))
			}
		case strings.Contains(vendorName, "amd"), strings.Contains(vendorName, "radeon"):
			g.Vendor = "amd"
		}
		if n, unit, ok := strings.Cut(d.VRAM, " "); ok && !g.Unified {
			size, _ := count(n)
			g.Total = size * map[string]int64{"MB": mib, "GB": 1 << 30}[unit]
		}
		list = append(list, g)
	}
	return list, nil
}
