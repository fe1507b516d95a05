//! The list on a terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::flag::register_usize;
use signal_hook::low_level::emulate_default_handler;

use super::list::List;
use super::sites::Sites;
use super::table::{TITLES, TREND, WIDTHS, bars, cells, columns, grown_by, note};
use crate::columns::at_most;
use crate::failure::{Failure, REFUSED};
use crate::see::{advice, text};

/// The state of the screen.
struct Screen {
    list: List,
    /// The process that keys are about. It may not be listed any more.
    chosen: Option<u32>,
    /// Where it is, or was.
    row: usize,
    table: TableState,
    /// The explanation of a process, and the number of its first visible line.
    explained: Option<(String, u16)>,
    /// The profile being taken.
    sites: Option<Sites>,
    /// The result of the last key.
    said: String,
}

/// Signals that end a command. The terminal is restored first.
const ENDS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// Such a signal is seen after so long.
const ALERT: Duration = Duration::from_millis(100);

/// Draws until the user or a signal ends it, and returns the exit code.
pub fn run(list: List, every: Duration) -> Result<u8, Failure> {
    let failed =
        |error: io::Error| Failure::new(REFUSED, format!("cannot draw on this terminal: {error}"));
    let signal = Arc::new(AtomicUsize::new(0));
    for end in ENDS {
        register_usize(end, Arc::clone(&signal), end as usize).map_err(failed)?;
    }
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let done = Screen::of(list).stay(&mut terminal, every, &signal);
    // It may be gone.
    let _ = restore(&mut terminal);
    if let signal @ 1.. = signal.load(Relaxed) {
        let _ = emulate_default_handler(signal as i32);
    }
    done.map_err(failed)?;
    Ok(0)
}

/// Makes the terminal what it was.
fn restore(terminal: &mut DefaultTerminal) -> io::Result<()> {
    terminal.show_cursor()?;
    ratatui::try_restore()
}

/// Leaves the terminal to the shell until the shell continues this job.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    restore(terminal)?;
    // As the terminal would do it: in all processes of the job.
    // SAFETY: it has no conditions.
    unsafe { libc::kill(0, SIGTSTP) };
    *terminal = ratatui::try_init()?;
    terminal.clear()
}

/// Waits for a key, at most so long. Returns whether the terminal has hung up: reading keys from it would never end.
fn is_gone(most: Duration) -> io::Result<bool> {
    let keys = io::stdin();
    let mut keys = [PollFd::new(&keys, PollFlags::IN)];
    let most = Timespec::try_from(most).map_err(io::Error::other)?;
    match poll(&mut keys, Some(&most)) {
        Err(Errno::INTR) => Ok(false),
        done => done.map(|_| keys[0].revents().contains(PollFlags::HUP)).map_err(io::Error::from),
    }
}

impl Screen {
    fn of(list: List) -> Screen {
        let (chosen, row, table) = (None, 0, TableState::new());
        let said = String::new();
        let mut screen = Screen { list, chosen, row, table, explained: None, sites: None, said };
        screen.find_chosen();
        screen
    }

    /// Finds the row of the chosen process, after the rows have changed. The first process is chosen if none ever was.
    fn find_chosen(&mut self) {
        self.chosen = self.chosen.or(self.list.rows.first().map(|row| row.pid));
        let found = self.list.rows.iter().position(|row| Some(row.pid) == self.chosen);
        if let (Some(chosen), Some(_), None) = (self.chosen, self.table.selected(), found) {
            self.said = format!("process {chosen} is no longer listed");
        }
        self.row = found.unwrap_or(self.row);
        *self.table.selected_mut() = found;
    }

    /// Chooses the next process or the one before; if the chosen one is gone, one of those around its place.
    fn choose(&mut self, next: bool) {
        let below = self.row + usize::from(self.table.selected().is_some());
        let row = if next { below } else { self.row.saturating_sub(1) };
        let last = self.list.rows.len().saturating_sub(1);
        if let Some(row) = self.list.rows.get(row.min(last)) {
            self.chosen = Some(row.pid);
            self.find_chosen();
        }
    }

    /// Draws until a key or a signal ends it.
    fn stay(
        &mut self,
        terminal: &mut DefaultTerminal,
        every: Duration,
        signal: &AtomicUsize,
    ) -> io::Result<()> {
        let mut last = Instant::now();
        while signal.load(Relaxed) == 0 {
            self.show_sites();
            terminal.draw(|frame| self.draw(frame))?;
            if is_gone(every.saturating_sub(last.elapsed()).min(ALERT))? {
                return Ok(());
            }
            while event::poll(Duration::ZERO)? {
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                {
                    let other = KeyModifiers::CONTROL | KeyModifiers::ALT;
                    let goes_on = match key.code {
                        code if !key.modifiers.intersects(other) => self.key(code),
                        KeyCode::Char('z') => suspend(terminal).map(|()| true)?,
                        code => code != KeyCode::Char('c'),
                    };
                    if !goes_on {
                        return Ok(());
                    }
                }
            }
            if last.elapsed() >= every {
                self.list.look();
                self.find_chosen();
                last = Instant::now();
            }
        }
        Ok(())
    }

    /// Shows the profile once it is finished and nothing else is shown.
    fn show_sites(&mut self) {
        if self.explained.is_none()
            && let Some(sites) = self.sites.take_if(|sites| sites.is_done())
        {
            match sites.told() {
                Ok(told) => self.explained = Some((told, 0)),
                Err(why) => self.said = why,
            }
        }
    }

    /// Performs a key's action. Returns `false` to end.
    fn key(&mut self, key: KeyCode) -> bool {
        self.said.clear();
        if let Some((_, line)) = &mut self.explained {
            match key {
                KeyCode::Down | KeyCode::Char('j') => *line = line.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => *line = line.saturating_sub(1),
                KeyCode::PageDown => *line = line.saturating_add(10),
                KeyCode::PageUp => *line = line.saturating_sub(10),
                _ => self.explained = None,
            }
            return true;
        }
        let process = self.chosen.filter(|_| self.table.selected().is_some());
        match (key, process) {
            (KeyCode::Char('q'), _) => return false,
            (KeyCode::Esc, _) => match &self.sites {
                Some(sites) => sites.end(),
                None => return false,
            },
            (KeyCode::Down | KeyCode::Char('j'), _) => self.choose(true),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.choose(false),
            (KeyCode::Char('s'), _) => {
                self.list.sort = self.list.sort.next();
                self.list.arrange();
                self.find_chosen();
            }
            (KeyCode::Enter | KeyCode::Char('e'), Some(process)) => {
                match advice::explain(process) {
                    Ok((account, advice)) => {
                        let told = text::render(&account, &advice, at_most(text::WIDTH));
                        self.explained = Some((anstream::adapter::strip_str(&told).to_string(), 0));
                    }
                    Err(error) => self.said = error.to_string(),
                }
            }
            (KeyCode::Char('h'), Some(process)) if self.sites.is_none() => {
                self.sites = Some(Sites::of(process));
            }
            (KeyCode::Char('p'), Some(process)) => {
                let asked = masu_inspect::engines(process).and_then(|(memory, engines)| {
                    engines.iter().try_for_each(|engine| engine.ask_for_purge(&memory))
                });
                self.said = match asked {
                    Ok(()) => format!(
                        "process {process} returns free memory at its next slow malloc or free"
                    ),
                    Err(error) => error.to_string(),
                };
            }
            _ => {}
        }
        true
    }

    fn draw(&mut self, frame: &mut Frame) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        let resident = self.list.rows.iter().map(|row| row.resident).sum();
        let unread = match self.list.refused + self.list.late {
            0 => String::new(),
            n => format!("   {n} not readable"),
        };
        let title = format!(
            "masu top   {} on masu   {} resident   by {}{unread}",
            self.list.rows.len(),
            crate::bytes::Bytes(resident),
            format!("{:?}", self.list.sort).to_lowercase(),
        );
        frame.render_widget(Line::from(title).bold(), head);
        if let Some((told, line)) = &self.explained {
            let text = Paragraph::new(told.as_str()).wrap(Wrap { trim: false });
            frame.render_widget(text.scroll((*line, 0)), body);
            frame.render_widget(Line::from("↑ ↓ scroll   any other key: back").dim(), foot);
            return;
        }
        if self.list.rows.is_empty() {
            frame.render_widget(Paragraph::new(note(&self.list)), body);
        } else {
            self.table(frame, body);
        }
        let keys = "↑ ↓ choose   Enter explain   h heap profile   s sort   p purge   q quit";
        let said = match &self.sites {
            _ if !self.said.is_empty() => self.said.clone(),
            Some(sites) => sites.progress(),
            None => keys.to_owned(),
        };
        frame.render_widget(Line::from(said).dim(), foot);
    }

    fn table(&mut self, frame: &mut Frame, area: ratatui::layout::Rect) {
        let columns = columns(area.width);
        // What is wider than the figure needs is the trend's.
        let trend = columns.iter().find(|(column, _)| *column == TREND);
        let trend =
            usize::from(trend.map_or(0, |(_, width)| width.saturating_sub(WIDTHS[TREND] + 1)));
        let rows = self.list.rows.iter().map(|row| {
            let last = match trend {
                0 => grown_by(row.grown),
                _ => format!("{:>10} {}", grown_by(row.grown), bars(row, trend)),
            };
            let all: Vec<String> = cells(row).into_iter().chain([last]).collect();
            Row::new(columns.iter().map(|&(column, _)| Cell::from(all[column].clone())))
        });
        let titles = Row::new(columns.iter().map(|&(column, _)| TITLES[column]));
        let table = Table::new(rows, columns.iter().map(|&(_, width)| Constraint::Length(width)))
            .header(titles.style(Style::new().bold().underlined()))
            .row_highlight_style(Style::new().reversed());
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::see::top::list::{Column, Row};

    fn row(pid: u32, resident: u64) -> Row {
        Row {
            pid,
            name: "python3.12-serv".into(),
            resident,
            live: 1023,
            free: 1022,
            dirty: 1023 << 10,
            given_back: 0,
            rate: Some(1023 << 20),
            trend: (0..40).map(|n| resident + n * (resident >> 3)).collect(),
            grown: -(1023 << 10),
        }
    }

    /// A screen with some processes and their resident bytes.
    fn screen(processes: &[(u32, u64)]) -> Screen {
        let mut list = List::new(Column::Resident);
        list.rows = processes.iter().map(|&(pid, resident)| row(pid, resident)).collect();
        list.arrange();
        Screen::of(list)
    }

    /// The lines of a screen of `width` columns.
    fn drawn(width: u16) -> Vec<String> {
        let mut screen = screen(&[(4_194_304, 1023 << 20), (27_210, 5 << 20)]);
        let mut terminal = Terminal::new(TestBackend::new(width, 5)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells = buffer.content().chunks(usize::from(width));
        cells.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_whole_figures() {
        let figures = [
            ("live", "1023 bytes"),
            ("free", "1022 bytes"),
            ("dirty", "1023 KiB"),
            ("allocates", "1023 MiB/s"),
            ("trend", "-1023 KiB"),
        ];
        for (width, lacks) in [
            (40, &["live", "free", "dirty", "allocates", "trend"][..]),
            (60, &["free", "allocates", "trend"]),
            (80, &["free"]),
            (89, &[]),
            (200, &[]),
        ] {
            let lines = drawn(width);
            let shown: Vec<_> = lines[1].split_whitespace().collect();
            let expected: Vec<_> =
                TITLES.into_iter().filter(|title| !lacks.contains(title)).collect();
            assert_eq!(shown, expected, "{lines:#?}");
            for (line, pid, resident) in
                [(&lines[2], "4194304 ", "1023 MiB"), (&lines[3], "27210 ", "5 MiB")]
            {
                assert!(line.starts_with(pid), "{lines:#?}");
                let mut rest = &line[pid.len()..];
                let figures = figures.iter().filter(|(title, _)| !lacks.contains(title));
                for text in ["python3.12-serv ", resident]
                    .into_iter()
                    .chain(figures.map(|&(_, figure)| figure))
                {
                    let (before, after) = rest.split_once(text).expect(text);
                    assert_eq!(before.trim(), "", "{lines:#?}");
                    rest = after;
                }
                assert_eq!(rest.contains('█'), width == 200, "{lines:#?}");
            }
        }
        // Names go before figures do.
        let lines = drawn(24);
        assert!(
            lines[2].starts_with("4194304 python") && lines[2].trim_end().ends_with("1023 MiB")
        );
    }

    #[test]
    fn the_title_counts_what_is_not_shown() {
        let mut screen = screen(&[]);
        (screen.list.refused, screen.list.late) = (2, 1);
        let mut terminal = Terminal::new(TestBackend::new(80, 5)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let title = terminal.backend().buffer().content()[..80].iter();
        let title: String = title.map(|cell| cell.symbol()).collect();
        assert!(title.contains("3 not readable"), "{title}");
    }

    #[test]
    fn the_chosen_process_stays_chosen_wherever_its_row_goes() {
        let chosen = |screen: &Screen| {
            let at = screen.table.selected();
            at.map(|at| (at, screen.list.rows[at].pid))
        };
        let looks = |screen: &mut Screen, processes: &[(u32, u64)]| {
            screen.list.rows =
                processes.iter().map(|&(pid, resident)| row(pid, resident)).collect();
            screen.list.arrange();
            screen.find_chosen();
        };
        let mut screen = screen(&[]);
        assert!(
            chosen(&screen).is_none() && screen.key(KeyCode::Down) && chosen(&screen).is_none()
        );
        looks(&mut screen, &[(10, 300), (20, 200), (30, 100)]);
        assert_eq!(chosen(&screen), Some((0, 10)));
        screen.key(KeyCode::Down);
        assert_eq!(chosen(&screen), Some((1, 20)));
        looks(&mut screen, &[(10, 300), (20, 50), (30, 100), (40, 400)]);
        assert_eq!(chosen(&screen), Some((3, 20)));
        screen.key(KeyCode::Down);
        assert_eq!(chosen(&screen), Some((3, 20)));
        for _ in Column::Resident as u8..Column::Pid as u8 {
            screen.key(KeyCode::Char('s'));
        }
        assert_eq!(chosen(&screen), Some((1, 20)));

        // Then keys apply to no other process.
        looks(&mut screen, &[(10, 300), (30, 100), (40, 400)]);
        assert_eq!((chosen(&screen), &*screen.said), (None, "process 20 is no longer listed"));
        screen.key(KeyCode::Char('p'));
        assert_eq!(screen.said, "");
        looks(&mut screen, &[(5, 1), (10, 300), (20, 1), (30, 100)]);
        assert_eq!(chosen(&screen), Some((2, 20)));
        looks(&mut screen, &[(5, 1), (10, 300), (30, 100)]);
        screen.key(KeyCode::Down);
        assert_eq!(chosen(&screen), Some((2, 30)));
        looks(&mut screen, &[(5, 1), (10, 300)]);
        screen.key(KeyCode::Up);
        assert_eq!(chosen(&screen), Some((1, 10)));
    }
}
