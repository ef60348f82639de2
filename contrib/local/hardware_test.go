package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The samples have the form that the documentation of the tools and public logs show; the values are invented.

func TestNvidia(t *testing.T) {
	// nvidia-smi(1) of the drivers 470 to 580: --query-gpu with csv,noheader,nounits.
	list, err := parseNvidia([]byte("0, 24576, 24111, 3, NVIDIA GeForce RTX 3090\n1, 81559, 80995, 0, NVIDIA H100 80GB HBM3\n"))
	require.NoError(t, err)
	assert.Equal(t, []GPU{
		{Vendor: "nvidia", Name: "NVIDIA GeForce RTX 3090", Total: 24576 << 20, Free: 24111 << 20, Busy: 3, Source: "nvidia-smi"},
		{Vendor: "nvidia", Name: "NVIDIA H100 80GB HBM3", Total: 81559 << 20, Free: 80995 << 20, Source: "nvidia-smi"},
	}, list)
	// 384 and before write [Not Supported]; the GB10, whose memory is that of the host, [N/A]. Windows ends lines with \r\n.
	list, err = parseNvidia([]byte("0, 2047, 1585, [Not Supported], GeForce GTX 660\r\n1, [N/A], [N/A], 12, NVIDIA GB10\r\n"))
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, -1, list[0].Busy)
	assert.True(t, list[1].Unified)
	assert.Equal(t, "NVIDIA GB10", list[1].Name)
	// In a container with an instance of a GPU, and after a fault of one: their memory is neither known nor that of the host.
	list, err = parseNvidia([]byte("0, [Insufficient Permissions], [Insufficient Permissions], [N/A], NVIDIA A100-SXM4-80GB\n1, [Unknown Error], [Unknown Error], [Unknown Error], NVIDIA L4\n"))
	assert.ErrorContains(t, err, "memory of NVIDIA A100-SXM4-80GB: [Insufficient Permissions]")
	assert.Equal(t, []GPU{{Vendor: "nvidia", Name: "NVIDIA A100-SXM4-80GB", Busy: -1, Source: "nvidia-smi"},
		{Vendor: "nvidia", Name: "NVIDIA L4", Busy: -1, Source: "nvidia-smi"}}, list)
	list, err = parseNvidia([]byte("No devices were found\n"))
	assert.ErrorContains(t, err, "No devices were found")
	assert.Empty(t, list)
}

// The memory of a GPU that is divided is told for all of it, and a program can use only an instance.
func TestInstances(t *testing.T) {
	m := machine{run: func(_ context.Context, _ string, args ...string) ([]byte, error) {
		if strings.Contains(args[0], "mig.mode.current") {
			return []byte("0, Disabled\n1, Enabled\n"), nil
		}
		return []byte("0, 81920, 81000, 12, NVIDIA A100-SXM4-80GB\n1, 40960, 40000, [N/A], NVIDIA A100-SXM4-40GB\n"), nil
	}}
	list, err := nvidiaGPUs(t.Context(), m)
	assert.ErrorContains(t, err, "A100-SXM4-40GB is divided into instances (MIG)")
	require.Len(t, list, 2)
	assert.Equal(t, []Device{{Name: "NVIDIA A100-SXM4-80GB", Free: 81000 << 20, Reserve: driverMemory}}, Hardware{GPUs: list}.Devices())
}

func TestAMD(t *testing.T) {
	want := []GPU{{Vendor: "amd", Name: "AMD Radeon RX 7900 XTX", Total: 24560 << 20, Free: 24292 << 20, Busy: 5, Source: "amd-smi"}}
	static := `[{"gpu":0,"asic":{"market_name":"AMD Radeon RX 7900 XTX","vendor_id":"0x1002"}}]`
	metric := `{"gpu":0,"usage":{"gfx_activity":{"value":5,"unit":"%"},"umc_activity":{"value":0,"unit":"%"},"mm_activity":"N/A"},
		"mem_usage":{"total_vram":{"value":24560,"unit":"MB"},"used_vram":{"value":268,"unit":"MB"},"free_vram":{"value":24292,"unit":"MB"}}}`
	// amd-smi 24 of ROCm 6 writes a list, amd-smi 26 of ROCm 7 an object with it.
	for _, out := range []string{"[" + metric + "]", `{"gpu_data":[` + metric + `]}`} {
		list, err := parseAMD([]byte(out), []byte(static))
		require.NoError(t, err)
		assert.Equal(t, want, list)
	}
	unknown := `[{"gpu":1,"usage":"N/A","mem_usage":{"total_vram":{"value":16384,"unit":"MB"},"used_vram":"N/A"}}]`
	for _, out := range []string{unknown, `{"gpu_data":` + unknown + "}"} { // what is not known is not invented
		list, err := parseAMD([]byte(out), nil)
		require.NoError(t, err)
		assert.Equal(t, []GPU{{Vendor: "amd", Name: "AMD GPU 1", Total: 16 << 30, Busy: -1, Source: "amd-smi"}}, list)
	}
	for _, bad := range []string{"", "ERROR: no driver", "{}", "null0"} {
		_, err := parseAMD([]byte(bad), nil)
		assert.Error(t, err, bad)
	}
}

func TestROCm(t *testing.T) {
	// rocm-smi of ROCm 5 has "Card series", that of ROCm 6 "Card Series" and "Device Name"; warnings come before the JSON.
	for _, out := range []string{
		`{"card1": {"GPU use (%)": "7", "VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "27193344", "Card series": "Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", "Card model": "0x0e3a"}}`,
		"WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n" +
			`{"card0": {"GPU use (%)": "7", "VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "27193344", "Card Series": "Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", "Device Name": "N/A"}, "system": {"Driver version": "6.3.6"}}`,
	} {
		list, err := parseROCm([]byte(out))
		require.NoError(t, err)
		assert.Equal(t, []GPU{{Vendor: "amd", Name: "Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", Total: 17163091968, Free: 17163091968 - 27193344, Busy: 7, Source: "rocm-smi"}}, list)
	}
	_, err := parseROCm([]byte("No AMD GPUs specified"))
	assert.ErrorContains(t, err, "No AMD GPUs specified")
}

func TestIntel(t *testing.T) {
	// xpu-smi 1.2 and 1.3: CLI_README.md.
	ids, err := parseXPU([]byte(`{"device_list": [{"device_id": 0, "device_name": "Intel(R) Arc(TM) A770 Graphics", "device_type": "GPU", "pci_bdf_address": "0000:03:00.0"}, {"device_id": 1, "device_name": "x", "device_type": "UNKNOWN"}]}`))
	require.NoError(t, err)
	assert.Equal(t, []int{0}, ids)
	g, err := parseXPUDevice([]byte(`{"device_id": 0, "device_name": "Intel(R) Arc(TM) A770 Graphics", "memory_free_size_byte": "16000000000", "memory_physical_size_byte": "17079205888"}`),
		[]byte(`{"device_id": 0, "device_level": [{"metrics_type": "XPUM_STATS_GPU_UTILIZATION", "value": 12.4}, {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 100.0}]}`))
	require.NoError(t, err)
	assert.Equal(t, GPU{Vendor: "intel", Name: "Intel(R) Arc(TM) A770 Graphics", Total: 17079205888, Free: 17079205888 - 100<<20, Busy: 12, Source: "xpu-smi"}, g)
	_, err = parseXPU([]byte(`{"error": "Level Zero Initialization Error"}`))
	assert.ErrorContains(t, err, "Level Zero")

	// intel_gpu_top of igt-gpu-tools 1.26 writes objects, with commas between; since 1.28 they are in an array. It is stopped.
	sample := `{"period":{"duration":500.1,"unit":"ms"},"engines":{"Render/3D":{"busy":%s,"sema":0,"wait":0,"unit":"%%"},"Video":{"busy":1.5,"sema":0,"wait":0,"unit":"%%"}}}`
	one, two := fmt.Sprintf(sample, "3.000000"), fmt.Sprintf(sample, "41.700000")
	for _, out := range []string{one + ",\n" + two, "[\n" + one + ",\n" + two + "\n]", "[\n" + one + ",\n" + two + ",\n" + two[:30]} {
		list, err := parseIntelTop([]byte(out))
		require.NoError(t, err, out)
		assert.Equal(t, []GPU{{Vendor: "intel", Name: "Intel graphics", Busy: 42, Unified: true, Source: "intel_gpu_top"}}, list)
	}
	_, err = parseIntelTop([]byte("Failed to initialize PMU! (Permission denied)"))
	assert.ErrorContains(t, err, "Permission denied")
}

func TestApple(t *testing.T) {
	// macOS 12 to 15: system_profiler SPDisplaysDataType -json, ioreg -r -d 1 -w 0 -c IOAccelerator.
	profiler := `{"SPDisplaysDataType":[{"_name":"kHW_AppleM2ProItem","spdisplays_mtlgpufamilysupport":"spdisplays_metal3","spdisplays_vendor":"sppci_vendor_Apple","sppci_cores":"19","sppci_model":"Apple M2 Pro"}]}`
	ioreg := `+-o AGXAcceleratorG14X  <class AGXAcceleratorG14X, id 0x100000481, registered, matched, active>
    {
      "model" = "Apple M2 Pro"
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Alloc system memory"=16749051904,"Device Utilization %"=16,"In use system memory"=568164352}
    }`
	list, err := parseApple([]byte(profiler), []byte(ioreg), 32<<30, 0)
	require.NoError(t, err)
	assert.Equal(t, []GPU{{Vendor: "apple", Name: "Apple M2 Pro", Total: 32 << 30 / 3 * 2, Free: 32<<30/3*2 - 568164352, Busy: 16, Unified: true, Source: "system_profiler"}}, list)
	list, err = parseApple([]byte(profiler), nil, 64<<30, 0)
	require.NoError(t, err)
	assert.Equal(t, int64(48<<30), list[0].Free)
	list, err = parseApple([]byte(profiler), nil, 64<<30, 60<<30)
	require.NoError(t, err)
	assert.Equal(t, int64(60<<30), list[0].Free)
	// A Mac with a processor of Intel and a GPU of AMD.
	list, err = parseApple([]byte(`{"SPDisplaysDataType":[{"_name":"x","sppci_model":"AMD Radeon Pro 5500M","spdisplays_vendor":"sppci_vendor_amd","spdisplays_vram":"8 GB"}]}`), nil, 16<<30, 0)
	require.NoError(t, err)
	assert.Equal(t, []GPU{{Vendor: "amd", Name: "AMD Radeon Pro 5500M", Total: 8 << 30, Busy: -1, Source: "system_profiler"}}, list)
	_, err = parseApple([]byte("x"), nil, 1, 0)
	assert.Error(t, err)

	// vm_stat of a processor of Apple, whose pages are larger.
	vm := "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:                               10000.\nPages active:                            500000.\nPages speculative:                         2000.\nPages purgeable:                           3000.\nFile-backed pages:                       100000.\n"
	assert.EqualValues(t, 115000*16384, parseVMStat([]byte(vm)))
}

func TestLinuxMemory(t *testing.T) {
	total, available := parseMeminfo([]byte("MemTotal:       32768000 kB\nMemFree:         1000000 kB\nMemAvailable:   24052096 kB\nBuffers:          100000 kB\nCached:          9000000 kB\n"))
	assert.Equal(t, int64(32768000<<10), total)
	assert.Equal(t, int64(24052096<<10), available)
	_, available = parseMeminfo([]byte("MemTotal:       32768000 kB\nMemFree:         1000000 kB\nBuffers:          100000 kB\nCached:          9000000 kB\n"))
	assert.Equal(t, int64(10100000<<10), available)
	total, available = within(32<<30, 24<<30, "8589934592\n", "2147483648\n", "")
	assert.Equal(t, int64(8<<30), total)
	assert.Equal(t, int64(6<<30), available)
	_, available = within(32<<30, 24<<30, "8589934592\n", "8053063680\n", "anon 536870912\ninactive_file 7247757312\nactive_file 268435456\n")
	assert.Equal(t, int64(8589934592-(8053063680-7247757312)), available, "files that were read once are given back")
	total, _ = within(32<<30, 24<<30, "max\n", "2147483648\n", "")
	assert.Equal(t, int64(32<<30), total)
	assert.EqualValues(t, 0, parsePSI([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")))
	assert.EqualValues(t, 1, parsePSI([]byte("some avg10=35.11 avg60=9.00 avg300=2.00 total=5\nfull avg10=4.00 avg60=0.00 avg300=0.00 total=0\n")))
	assert.EqualValues(t, 2, parsePSI([]byte("some avg10=75.11 avg60=9.00 avg300=2.00 total=5\nfull avg10=44.00 avg60=0.00 avg300=0.00 total=0\n")))
}

// fakeMachine is a Linux machine with a GPU of NVIDIA.
func fakeMachine(now func() (available, free int64)) machine {
	return machine{
		system: "linux",
		run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
			switch name {
			case "nvidia-smi":
				_, free := now()
				return fmt.Appendf(nil, "0, 8192, %d, 0, NVIDIA A\n", free>>20), nil
			case "amd-smi":
				return []byte("ERROR: Driver not initialized"), errors.New("exit status 1")
			}
			return nil, &exec.Error{Name: name, Err: exec.ErrNotFound}
		},
		read: func(name string) ([]byte, error) {
			if name == "/proc/meminfo" {
				available, _ := now()
				return fmt.Appendf(nil, "MemTotal: %d kB\nMemAvailable: %d kB\n", 64<<20, available>>10), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

// In a container, its limit counts, in both versions of control groups.
func TestContainer(t *testing.T) {
	for _, files := range []map[string]string{
		{"memory.max": "8589934592\n", "memory.current": "3221225472\n", "memory.stat": "anon 1\ninactive_file 1073741824\n"},
		{"memory/memory.limit_in_bytes": "8589934592\n", "memory/memory.usage_in_bytes": "3221225472\n", "memory/memory.stat": "cache 1\ninactive_file 1073741824\ntotal_inactive_file 1073741824\n"},
	} {
		m := fakeMachine(func() (int64, int64) { return 32 << 30, 8 << 30 })
		read := m.read
		m.read = func(name string) ([]byte, error) {
			if text, ok := files[strings.TrimPrefix(name, "/sys/fs/cgroup/")]; ok {
				return []byte(text), nil
			}
			return read(name)
		}
		h := detect(t.Context(), m)
		assert.Equal(t, []int64{8 << 30, 6 << 30}, []int64{h.Total, h.Available})
	}
}

func TestDetect(t *testing.T) {
	h := detect(t.Context(), fakeMachine(func() (int64, int64) { return 32 << 30, 8 << 30 }))
	require.Len(t, h.GPUs, 1)
	assert.Equal(t, int64(64<<30), h.Total)
	assert.Equal(t, int64(32<<30), h.Available)
	assert.Equal(t, []string{"amd: amd-smi: exit status 1: ERROR: Driver not initialized"}, h.Notes)
	assert.Equal(t, []Device{{Name: "NVIDIA A", Free: 8 << 30, Reserve: driverMemory}}, h.Devices())

	// This machine has memory, whatever else it has.
	real := Detect(t.Context())
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		assert.Positive(t, real.Total)
		assert.LessOrEqual(t, real.Available, real.Total)
	}
	t.Logf("%+v", real)
}

// Memory that runs out is told once, and again when there is enough.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := [][2]int64{
			{32 << 30, 6 << 30},
			{32 << 30, 700 << 20}, // 8.5 %
			{32 << 30, 900 << 20}, // 11 % is not enough to be normal again
			{3 << 30, 300 << 20},  // 4.7 %, and 3.7 %
			{4600 << 20, 5 << 30}, // 7 % on the host
			{32 << 30, 5 << 30},
		}
		begin := time.Now()
		m := fakeMachine(func() (int64, int64) {
			s := steps[min(int(time.Since(begin)/time.Second), len(steps)-1)]
			return s[0], s[1]
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(len(steps))*time.Second)
		defer cancel()
		var got []string
		watch(ctx, m, time.Second, func(p Pressure) bool {
			got = append(got, p.Device+" "+p.Level)
			return true
		})
		assert.Equal(t, []string{"host normal", "NVIDIA A normal", "NVIDIA A warning", "host critical", "NVIDIA A critical", "host warning",
			"NVIDIA A normal", "host normal"}, got)
		n := 0
		watch(t.Context(), m, time.Second, func(Pressure) bool { n++; return false })
		assert.Equal(t, 1, n)
	})
}

// A tool is bounded in time and output.
func TestRunTool(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it needs a shell")
	}
	dir := t.TempDir()
	tool := func(name, script string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
		return path
	}
	out, err := runTool(t.Context(), tool("says", "echo $LC_ALL $1"), "x")
	require.NoError(t, err)
	assert.Equal(t, "C x\n", string(out))
	_, err = runTool(t.Context(), tool("endless", "yes"))
	assert.ErrorIs(t, err, errOutput)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = runTool(ctx, tool("silent", "sleep 1000"))
	assert.ErrorIs(t, err, context.Canceled)
	_, err = runTool(t.Context(), filepath.Join(dir, "none"))
	assert.Error(t, err)
	_, err = runTool(t.Context(), "aycoder-has-no-such-tool")
	assert.ErrorIs(t, err, exec.ErrNotFound)
	out, err = runTool(t.Context(), tool("fails", "echo no driver; exit 9"))
	assert.ErrorContains(t, toolError("fails", out, err), "exit status 9: no driver")
}

func FuzzVendors(f *testing.F) {
	for _, s := range []string{"0, 1, 2, 3, x\n", `[{"gpu":0,"mem_usage":{"total_vram":{"value":1e300,"unit":"GB"}}}]`, `{"card0":{"VRAM Total Memory (B)":"9e99"}}`, `{"device_list":[{"device_id":0}]}`, `[{"engines":{"a":{"busy":1}}},`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []GPU
		for _, parse := range []func([]byte) ([]GPU, error){parseNvidia, parseROCm, parseIntelTop,
			func(b []byte) ([]GPU, error) { return parseAMD(b, b) },
			func(b []byte) ([]GPU, error) { return parseApple(b, b, 1<<34, 0) },
			func(b []byte) ([]GPU, error) { g, err := parseXPUDevice(b, b); return []GPU{g}, err }} {
			list, _ := parse(data)
			all = append(all, list...)
		}
		for _, g := range all {
			if g.Total < 0 || g.Free < 0 || g.Busy < -1 || g.Busy > 100 {
				t.Fatalf("%+v", g)
			}
		}
		if n := parseVMStat(data); n < 0 && !strings.Contains(string(data), "9") {
			t.Fatal(n)
		}
		_, _ = parseXPU(data)
		parseMeminfo(data)
		parsePSI(data)
	})
}
