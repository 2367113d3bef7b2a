//! The native half of the Python package: models, streams and sessions over JSON texts. All waiting is done without the GIL.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::{Duration, Instant};
use strata_bindings as core;
use strata_bindings::{JsonStream, Next, SharedSession};

create_exception!(_strata, Error, PyException, "What went wrong.");

/// How long a wait goes on before signals are looked at, so that Ctrl-C ends it.
const TICK: Duration = Duration::from_millis(100);

fn raise(error: core::Error) -> PyErr {
    let hint = error.hint().map(str::to_owned);
    Error::new_err((error.to_string(), error.code(), hint))
}

/// A model in memory.
#[pyclass(frozen, module = "strata._strata")]
struct RawModel(core::Model);

/// An answer on its way.
#[pyclass(frozen, module = "strata._strata")]
struct RawStream(JsonStream);

/// A text that grows over many requests.
#[pyclass(frozen, module = "strata._strata")]
struct RawSession(SharedSession);

#[pymethods]
impl RawModel {
    fn request(&self, py: Python<'_>, path: &str, body: &[u8]) -> PyResult<RawStream> {
        let asked = py.detach(|| core::request(&self.0, path, body));
        asked.map(RawStream).map_err(raise)
    }

    fn chat_tools(&self, py: Python<'_>, body: &[u8]) -> PyResult<RawStream> {
        let asked = py.detach(|| core::chat_with_tools(&self.0, body));
        asked.map(RawStream).map_err(raise)
    }

    fn info(&self) -> String {
        core::info(&self.0).text()
    }

    fn adapters(&self) -> String {
        core::adapters(&self.0).text()
    }

    fn set_adapters(&self, scales: &[u8]) -> PyResult<()> {
        core::set_adapters(&self.0, scales).map_err(raise)
    }

    fn tokenize(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        py.detach(|| self.0.tokenize(text)).map_err(raise)
    }

    fn detokenize(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<String> {
        let text = py.detach(|| self.0.detokenize(&tokens));
        text.map_err(raise)
    }

    fn session(&self) -> PyResult<RawSession> {
        let session = SharedSession::new(&self.0);
        session.map(RawSession).map_err(raise)
    }

    fn restore(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<RawSession> {
        let restored = py.detach(|| SharedSession::restore(&self.0, bytes));
        restored.map(RawSession).map_err(raise)
    }
}

#[pymethods]
impl RawStream {
    /// Waits for the next document; None after the last.
    fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        loop {
            match py.detach(|| self.0.next(Some(TICK))) {
                Next::Document(text) => return Ok(Some(text)),
                Next::End => return Ok(None),
                Next::Failed(error) => return Err(raise(error)),
                Next::Pending => py.check_signals()?,
            }
        }
    }

    /// What is there already: whether there was anything, and a document or None for the end.
    fn poll(&self, py: Python<'_>) -> PyResult<(bool, Option<String>)> {
        match py.detach(|| self.0.try_next()) {
            Next::Document(text) => Ok((true, Some(text))),
            Next::End => Ok((true, None)),
            Next::Failed(error) => Err(raise(error)),
            Next::Pending => Ok((false, None)),
        }
    }

    /// Waits for at most so many seconds; like `poll`.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<(bool, Option<String>)> {
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let start = Instant::now();
        loop {
            let left = time.saturating_sub(start.elapsed());
            match py.detach(|| self.0.next(Some(left.min(TICK)))) {
                Next::Document(text) => return Ok((true, Some(text))),
                Next::End => return Ok((true, None)),
                Next::Failed(error) => return Err(raise(error)),
                Next::Pending if start.elapsed() >= time => return Ok((false, None)),
                Next::Pending => py.check_signals()?,
            }
        }
    }

    fn fileno(&self) -> PyResult<i32> {
        self.0.descriptor().map_err(raise)
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    fn tool_result(&self, id: &str, text: &str) -> PyResult<()> {
        self.0.tool_result(id, text).map_err(raise)
    }

    fn model(&self) -> Option<RawModel> {
        self.0.take_model().map(RawModel)
    }
}

#[pymethods]
impl RawSession {
    fn constrain(&self, constraints: &[u8]) -> PyResult<()> {
        self.0.constrain(constraints).map_err(raise)
    }

    fn append(&self, text: &str) -> PyResult<()> {
        self.0.append(text).map_err(raise)
    }

    fn run(&self, body: &[u8]) -> PyResult<RawStream> {
        self.0.run(body).map(RawStream).map_err(raise)
    }

    fn text(&self) -> String {
        self.0.text()
    }

    fn fork(&self) -> Self {
        Self(self.0.fork())
    }

    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.save()).map_err(raise)?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Opens a model and waits for it. Ctrl-C stops the load.
#[pyfunction]
fn open(py: Python<'_>, model: &str, options: &[u8]) -> PyResult<RawModel> {
    let stream = RawStream(core::load(model, options).map_err(raise)?);
    while stream.next(py)?.is_some() {}
    let gone = || raise(core::Error::new(core::ErrorKind::Internal, "no model"));
    stream.model().ok_or_else(gone)
}

/// Opens a model; the stream tells how far it is.
#[pyfunction]
fn load(model: &str, options: &[u8]) -> PyResult<RawStream> {
    core::load(model, options).map(RawStream).map_err(raise)
}

/// What a model would take.
#[pyfunction]
fn plan(py: Python<'_>, model: &str, options: &[u8]) -> PyResult<String> {
    let plan = py.detach(|| core::plan(model, options)).map_err(raise)?;
    Ok(plan.text())
}

#[pymodule]
fn _strata(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("__version__", core::VERSION)?;
    module.add("FEATURES", core::FEATURES.to_vec())?;
    module.add_class::<RawModel>()?;
    module.add_class::<RawStream>()?;
    module.add_class::<RawSession>()?;
    module.add_function(wrap_pyfunction!(open, module)?)?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)
}
