module github.com/aycoder/aycoder/bench/aycoder

go 1.26.0

require (
	github.com/aycoder/aycoder v0.0.0
	github.com/aycoder/aycoder/bench v0.0.0
)

require github.com/tmaxmax/go-sse v0.11.0 // indirect

replace (
	github.com/aycoder/aycoder => ../..
	github.com/aycoder/aycoder/bench => ..
)
